"""Airflow's callbacks and notifiers for the events of a pipeline: `on_checkpoint_failed=SlackNotifier(…)`.

A task of the DAG that has them calls them, with its context and the event: the task that failed the checkpoint or,
after a crash, the next one that checks. They are called at least once for each event, and usually once.
"""

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from airflow.sdk import Context

from tidegate.protocol.observing.events import Event, EventKind, sentence
from tidegate.reporting.configured import pages_url
from tidegate.reporting.webhook import page_of

log = logging.getLogger(__name__)

Callback = Callable[[Context], None]
OneOrMore = Callback | Sequence[Callback] | None


class Callbacks:
    """The callbacks of a DAG, by the kind of event. They are shared by copies of the DAG, because a user's callback
    need not support copying.
    """

    def __init__(self, **by_kind: OneOrMore) -> None:
        """Accept callbacks by `on_…`, as a DAG's author writes them."""
        self.by_kind = {_KINDS[name]: _several(given) for name, given in by_kind.items() if _several(given)}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Callbacks":
        return self

    def __repr__(self) -> str:
        return f"Callbacks({', '.join(self.by_kind)})"


_KINDS = {
    "on_checkpoint_failed": EventKind.CHECKPOINT_FAILED,
    "on_verdict_held": EventKind.VERDICT_HELD,
    "on_pipeline_failed": EventKind.PIPELINE_FAILED,
    "on_pipeline_stale": EventKind.PIPELINE_STALE,
    "on_pipeline_fresh": EventKind.PIPELINE_FRESH,
}


def _several(given: OneOrMore) -> list[Callback]:
    if given is None:
        return []
    return [given] if callable(given) else list(given)


@dataclass(frozen=True)
class CallbackNotifier:
    """A notifier that calls the callbacks of a DAG from one of its tasks."""

    callbacks: Callbacks
    context: Context

    @property
    def name(self) -> str:
        return f"airflow:{self.context['ti'].dag_id}"

    @property
    def kinds(self) -> frozenset[EventKind]:
        return frozenset(self.callbacks.by_kind)

    def notify(self, event: Event) -> bool:
        """Call every callback. If one raises, all are called again later: only their joint success is recorded."""
        failed: Exception | None = None
        for callback in self.callbacks.by_kind[event.kind]:
            try:
                # A notifier renders its templates into itself, so each event gets a copy.
                copy(callback)(callback_context(self.context, event))
            except Exception as error:
                log.exception("A callback of DAG %s for %s raised.", self.context["ti"].dag_id, event.kind)
                failed = error
        if failed is not None:
            raise failed
        return True


def callback_context(context: Context, event: Event) -> Context:
    """Return Airflow's context of the calling task with the event added, also for a notifier's templates."""
    fields = {
        "pipeline": event.pipeline_id,
        "checkpoint": event.checkpoint_id,
        "event": event.kind.value,
        "reason": event.reason,
        "sentence": sentence(event),
        "message": event.message,
        "happened_at": event.at,
        "link": None if (pages := _pages()) is None else page_of(event, pages),
    }
    return cast(Context, {**context, **fields})


def _pages() -> str | None:
    if (address := pages_url()) is not None:
        return address
    # Airflow's configuration is slow to import, and this runs only after a failure.
    from airflow.configuration import conf

    base = conf.get("api", "base_url", fallback="") or ""
    return f"{base.rstrip('/')}/tidegate" if base else None
