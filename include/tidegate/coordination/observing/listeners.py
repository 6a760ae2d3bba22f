"""Notify a pipeline's listeners of the outcomes of its checkpoints (protocol.md section 10). Decides nothing.

`notify` reports completions, because it knows when sinks have committed. Failures have many causes and one place:
the transaction in which a checkpoint, or the pipeline, is failed. It is watched here. The failure is recorded in it
as an event, for notifiers, who must receive it even if this process dies. Listeners are notified once the
transaction is committed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import RLock
from typing import Any, cast

from tidegate.ports import CheckpointListener, CheckpointStore, Participant, Prefetch, StoreTransaction
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import EventKind

log = logging.getLogger("tidegate")


class InOrder:
    """One listener. It is notified of completions in the order of their ids, once each as far as this process knows.

    A failure carries the latest completed checkpoint. The listener is notified of that first, if it was not yet.
    This makes up for a completion that another process reported, or that was lost with a process.
    """

    def __init__(self, listener: CheckpointListener) -> None:
        self.name = type(listener).__name__
        self._listener = listener
        self._completed = self._subsumed = 0  # the newest notified so far; ids begin at 1
        self._lock = RLock()  # a listener may itself take a step that notifies it

    def completed(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._completed:
                self._listener.notify_checkpoint_complete(checkpoint_id)
                self._completed = max(self._completed, checkpoint_id)

    def aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        with self._lock:
            self._listener.notify_checkpoint_aborted(checkpoint_id, latest_completed)

    def subsumed(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._subsumed:
                self._listener.notify_checkpoint_subsumed(checkpoint_id)
                self._subsumed = max(self._subsumed, checkpoint_id)


class NotifiedListeners:
    """The listeners of one process, with their latest notifications. All coordinators in a process share one."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], InOrder] = {}

    def of(self, pipeline_id: str, listener: CheckpointListener) -> InOrder:
        """Return the notifications of one listener. Every pipeline counts its own checkpoints. A listener is identified
        by its identity, as it may be equal to another one. It is kept, so that no later object gets its `id`."""
        return self._listeners.setdefault((pipeline_id, id(listener)), InOrder(listener))


class Listeners:
    """All listeners of a pipeline, one after the other. An error of one is logged, and the others are
    still notified."""

    def __init__(self, pipeline_id: str, listeners: Sequence[CheckpointListener], notified: NotifiedListeners) -> None:
        self._pipeline_id = pipeline_id
        self._listeners = listeners
        self._notified = notified

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def completed(self, checkpoint_id: int) -> None:
        """Notify listeners after the sinks have committed, and before that is recorded. After a crash, they are
        notified again."""
        for listener in self._in_order():
            self._notify(listener, checkpoint_id, "completed", lambda to: to.completed(checkpoint_id))

    def aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        for listener in self._in_order():
            if latest_completed is not None:
                self._notify(listener, latest_completed, "completed", lambda to: to.completed(latest_completed))
            self._notify(listener, checkpoint_id, "failed", lambda to: to.aborted(checkpoint_id, latest_completed))

    def subsumed(self, checkpoint_id: int) -> None:
        for listener in self._in_order():
            self._notify(listener, checkpoint_id, "was subsumed", lambda to: to.subsumed(checkpoint_id))

    def _in_order(self) -> list[InOrder]:
        return [self._notified.of(self._pipeline_id, listener) for listener in self._listeners]

    def _notify(self, listener: InOrder, checkpoint_id: int, what: str, call: Callable[[InOrder], None]) -> None:
        try:
            call(listener)
        except Exception:
            log.exception(
                "Listener %s of pipeline %s raised when it was notified that checkpoint %s %s. "
                "The checkpoint is as it is; "
                "the other listeners are notified.",
                listener.name,
                self._pipeline_id,
                checkpoint_id,
                what,
            )


def watch_failures(
    store: CheckpointStore, listeners: Listeners, after: Callable[[], None] = lambda: None
) -> CheckpointStore:
    """Return the same store, watched. Listeners are notified of every checkpoint that a transaction fails, after the
    commit, and then `after` is called."""
    return cast(CheckpointStore, _WatchedStore(store, listeners, after))


class _WatchedStore:
    def __init__(self, store: CheckpointStore, listeners: Listeners, after: Callable[[], None]) -> None:
        self._store = store
        self._listeners = listeners
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> Iterator[StoreTransaction]:
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            watched = _WatchedTransaction(tx)
            yield cast(StoreTransaction, watched)
            latest = _latest_notified(tx) if watched.failed and self._listeners else None
        for checkpoint_id in watched.failed:
            self._listeners.aborted(checkpoint_id, latest)
        if watched.failed or watched.failed_pipeline or watched.held:
            self._after()


class _WatchedTransaction:
    """A transaction that records failures and holds as events in itself, whichever step causes them."""

    def __init__(self, tx: StoreTransaction) -> None:
        self._tx = tx
        self.failed: list[int] = []
        self.failed_pipeline = False
        self.held = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        moved = self._tx.fail(checkpoint_id, reason, message, at)
        if moved:
            self.failed.append(checkpoint_id)
            if reason is not FailureReason.CHECKPOINT_SUBSUMED:  # its rows are visible, so no event is needed
                self._tx.add_event(EventKind.CHECKPOINT_FAILED, message, at, checkpoint_id, reason)
        return moved

    def hold(self, checkpoint_id: int, until: datetime, message: str, at: datetime) -> bool:
        moved = self._tx.hold(checkpoint_id, until, message, at)
        if moved:
            self.held = True
            self._tx.add_event(EventKind.VERDICT_HELD, message, at, checkpoint_id)
        return moved

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        self._tx.move_pipeline(after, at, message, forgiven_until)
        if after is PipelineStatus.FAILED:
            self.failed_pipeline = True
            self._tx.add_event(EventKind.PIPELINE_FAILED, message or "", at)


def _latest_notified(tx: StoreTransaction) -> int | None:
    """Return the latest completed checkpoint, if its sinks have committed. Listeners are not notified of it before
    that."""
    latest = tx.latest_completed()
    return None if latest is None or latest.notified_at is None else latest.checkpoint_id
