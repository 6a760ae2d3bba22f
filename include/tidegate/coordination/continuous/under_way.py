"""The checkpoints that a continuous region takes part in. Triggered ones are begun, an acknowledged one is completed,
and the region is notified of each outcome."""

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress

from tidegate.coordination.continuous.completing import Completing
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps.lookup import find_triggered
from tidegate.ports import ContinuousRegion
from tidegate.protocol.continuous.overlap import choose_to_complete
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.facts.errors import CheckpointExpiredError, CheckpointNotInProgressError
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.steps.admission import choose_misdated

log = logging.getLogger("tidegate")


class UnderWay:
    """The checkpoints in progress of one attempt, which starts from the checkpoint of `start`."""

    def __init__(self, coordinator: CheckpointCoordinator, start: RegionStart, region: ContinuousRegion) -> None:
        self._coordinator = coordinator
        self._context = coordinator.context
        self._attempt = start.attempt
        self._region = region
        self._pending: list[int] = []  # oldest first
        self._latest = -1 if start.checkpoint_id is None else start.checkpoint_id  # the newest completed checkpoint
        self._newest = max(self._latest, 0)  # the newest checkpoint that was read

    def is_full(self, ended: bool) -> bool:
        """Whether the region takes part in as many checkpoints as it may. The last one is followed by none."""
        return len(self._pending) >= (1 if ended else self._context.config.max_concurrent)

    def has_stopped(self) -> bool:
        """Whether the region's last checkpoint was the savepoint of a stop, and is complete."""
        last = self._records()[-1:]
        return any(record.kind is CheckpointKind.SYNC_SAVEPOINT and record.status in COMMITTED for record in last)

    def follow(self, completing: Completing, background: Executor) -> bool:
        """Follow the checkpoints by one step. A held one waits, and rows keep flowing meanwhile. Return whether any has
        failed.

        Completed checkpoints are reported last: checkpoints triggered before still need the subtasks that have
        finished with it.
        """
        records = self._records()
        failed = [record for record in records if record.status is Status.FAILED]
        for record in failed:
            self._has_failed(record)
        self._begin_new()
        for record in records:
            if record.notified_at is not None:
                self._has_completed(record)
            elif record.status is Status.IN_PROGRESS and record.phase in (Phase.TRIGGERED, Phase.HELD):
                self._expire_if_overdue(record)
        following = _following(records)
        completing.forget_unless(following)
        if following is not None and (not completing or completing.has_ended):
            completing.start(following, background)
        return bool(failed)

    def leave(self, completing: Completing) -> None:
        """Complete the checkpoints that have all their snapshots before the run ends, because no other process may do
        it."""
        completing.wait()
        tried: set[int] = set()
        while (following := _following(self._records())) is not None and following not in tried:
            tried.add(following)
            completing.complete(following)

    def _records(self) -> list[CheckpointRecord]:
        records = [self._context.store.checkpoint(self._context.pipeline_id, pending) for pending in self._pending]
        return [record for record in records if record is not None]

    def _has_failed(self, record: CheckpointRecord) -> None:
        pipeline_id, message = self._context.pipeline_id, record.failure_message
        if record.failure_reason is FailureReason.CHECKPOINT_SUBSUMED:
            log.info("Pipeline %s: %s", pipeline_id, message)
        else:
            log.warning("Pipeline %s: checkpoint %s failed: %s", pipeline_id, record.checkpoint_id, message)
        self._pending.remove(record.checkpoint_id)
        self._region.aborted(record.checkpoint_id, self._latest)

    def _has_completed(self, record: CheckpointRecord) -> None:
        log.info("Pipeline %s: checkpoint %s completed", self._context.pipeline_id, record.checkpoint_id)
        self._pending.remove(record.checkpoint_id)
        self._latest = record.checkpoint_id
        self._region.completed(record.checkpoint_id)

    def _begin_new(self) -> None:
        """Begin the checkpoints that were triggered since the last read, in their order."""
        for record in find_triggered(self._context.store, self._context.pipeline_id, self._newest):
            self._newest = record.checkpoint_id
            if record.status is Status.IN_PROGRESS:
                task = self._coordinator.begin_snapshot(self._attempt, record.checkpoint_id)
                if task is not None:
                    self._pending.append(task.checkpoint_id)
                    self._region.begin(task)

    def _expire_if_overdue(self, record: CheckpointRecord) -> None:
        now, timeout = self._context.clock.now(), self._context.config.timeout
        if now >= record.ends_at or choose_misdated([record], timeout, now):
            with suppress(
                CheckpointExpiredError, CheckpointNotInProgressError
            ):  # another process may have just ended it
                self._coordinator.acknowledge(record.checkpoint_id)


def _following(records: Sequence[CheckpointRecord]) -> int | None:
    """Return the checkpoint to complete next, of those that have not ended."""
    unfinished = [record for record in records if record.status is not Status.FAILED and record.notified_at is None]
    following = choose_to_complete(unfinished)
    return None if following is None else following.checkpoint_id
