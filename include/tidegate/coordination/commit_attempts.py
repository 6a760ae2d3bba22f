"""Gives out attempts at committing sinks, one at a time, and finds out for each whether it is still the newest."""

import logging
from typing import assert_never

from tidegate.ports import CheckpointStore, Clock
from tidegate.protocol.committing import (
    COMMIT_LEASE,
    Notified,
    Take,
    WaitForCommitter,
    decide_take,
    is_committing,
    needs_sign,
)
from tidegate.protocol.errors import SupersededAttemptError
from tidegate.protocol.records import CheckpointRecord

log = logging.getLogger("tidegate")


class Committer:
    """One attempt at committing a checkpoint's sinks: a `ports.CommitAttempt`."""

    def __init__(self, record: CheckpointRecord, number: int, store: CheckpointStore, clock: Clock) -> None:
        self.number = number
        self._record = record
        self._store = store
        self._clock = clock
        self._seen_at = clock.now()

    def confirm(self) -> None:
        """See `ports.CommitAttempt`. Raises `SupersededAttemptError`."""
        with self._store.transaction(self._record.pipeline_id) as tx:
            if not is_committing(tx.committer(), self.number):
                raise self.superseded()
            now = self._clock.now()
            if needs_sign(self._seen_at, now):
                tx.touch_committer(self.number, now)
                self._seen_at = now

    def keep(self) -> None:
        """See `ports.CommitAttempt`. Raises `SupersededAttemptError`."""
        if needs_sign(self._seen_at, self._clock.now()):
            self.confirm()

    def release(self) -> None:
        """Let the next attempt begin at once. Does nothing if another one has taken over."""
        with self._store.transaction(self._record.pipeline_id) as tx:
            tx.end_commit(self.number)

    def superseded(self) -> SupersededAttemptError:
        return SupersededAttemptError(
            f"Attempt {self.number} at committing the sinks of checkpoint {self._record.checkpoint_id} of pipeline "
            f"{self._record.pipeline_id} was overtaken by another process, because it gave no sign of life for too "
            "long. Nothing it does counts any more. The checkpoint is complete and its rows are safe: the process that "
            "took over makes them visible. Repeat the notify step to confirm that."
        )


def take_turn(record: CheckpointRecord, store: CheckpointStore, clock: Clock) -> Committer | Notified:
    """Wait until the current committer is done or its lease ends, and take over.
    `Notified` if the sinks have committed."""
    waited: WaitForCommitter | None = None
    while True:
        with store.transaction(record.pipeline_id) as tx:
            known, now = tx.checkpoint(record.checkpoint_id), clock.now()
            notified = known is not None and known.notified_at is not None
            match decision := decide_take(notified, tx.committer(), waited, now):
                case Notified():
                    return decision
                case Take():
                    number = tx.begin_commit(now)
                    break
                case WaitForCommitter():
                    if waited is None or waited.committer.attempt != decision.committer.attempt:
                        _say_who_is_waited_for(record, decision.committer.attempt)
                    waited = decision
                case _:
                    assert_never(decision)
        clock.sleep(waited.pause.total_seconds())
    return Committer(record, number, store, clock)


def _say_who_is_waited_for(record: CheckpointRecord, attempt: int) -> None:
    log.info(
        "Attempt %s at committing the sinks of pipeline %s is at work. Checkpoint %s waits for it, and takes over %g s "
        "after its last sign of life.",
        attempt,
        record.pipeline_id,
        record.checkpoint_id,
        COMMIT_LEASE.total_seconds(),
    )
