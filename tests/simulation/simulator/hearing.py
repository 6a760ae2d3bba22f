"""Listeners of a simulated pipeline, each with its process: what they hear must be so, in order,
and neither early nor wrong."""

from collections.abc import Callable
from typing import Any

from simulator.scheduler import require
from tidegate.ports import CheckpointListener
from tidegate.protocol.facts.lifecycle import COMMITTED, Status


class Hearing(CheckpointListener):
    """`state` is what is committed; `effect` lets others go first, or this process die; `missed` names the sinks that
    were not notified of a checkpoint."""

    def __init__(
        self, state: Callable[[], Any], effect: Callable[[str], None], missed: Callable[[int], list[str]]
    ) -> None:
        self._state, self._effect, self._missed = state, effect, missed
        self._completed = 0

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._effect(f"hears that chk-{checkpoint_id} completed")
        require(self._is(checkpoint_id, COMMITTED), f"checkpoint {checkpoint_id} was notified as complete, but is not")
        missed = self._missed(checkpoint_id)
        require(not missed, f"checkpoint {checkpoint_id} was notified as complete before {missed} committed it")
        require(checkpoint_id >= self._completed, f"checkpoint {checkpoint_id} was notified after {self._completed}")
        self._completed = checkpoint_id

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        self._effect(f"hears that chk-{checkpoint_id} failed")
        require(
            self._is(checkpoint_id, {Status.FAILED}), f"checkpoint {checkpoint_id} was notified as failed, but is not"
        )
        if latest_completed is None:
            return
        committed = self._is(latest_completed, COMMITTED) and not self._missed(latest_completed)
        require(committed, f"{latest_completed} was named as the latest, but was not committed")
        require(self._completed >= latest_completed, f"{latest_completed} was named before it was notified")

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._effect(f"hears that chk-{checkpoint_id} was subsumed")
        gone = self._is(checkpoint_id, {Status.SUBSUMED, Status.DISCARDED})
        require(gone, f"checkpoint {checkpoint_id} was notified as subsumed, but is not")
        in_order = self._completed > checkpoint_id or self._state().restores  # after which an older one may complete
        require(in_order, f"{checkpoint_id} was notified as subsumed after {self._completed}")

    def _is(self, checkpoint_id: int, statuses: Any) -> bool:
        record = self._state().checkpoints.get(checkpoint_id)
        return record is not None and record.status in statuses


def listening(*of: Any) -> list[CheckpointListener]:
    """The listeners of one process, to whose coordinator they are new."""
    return [Hearing(*of)]
