"""The honest in-memory twin of the Postgres store: the same port, rollback on exception, a real lock per pipeline.

It refuses what the database's constraints refuse, so a test that passes on it says something about the real one; the
conformance suite runs against both.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from memory_state import PipelineState, read_subtasks
from memory_tables import MemoryTables
from memory_transaction import MemoryTransaction

from tidegate.ports import Participant, Prefetch
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.errors import RecordRefusedError, StoreUnavailableError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.statistics import LatestFigures, LatestRestore, Measurement
from tidegate.protocol.schema.expiry import count_removed

LOCK_TIMEOUT = 60.0  # seconds, as in `tidegate.postgres.engine`


_NUMBERS = count(1)


class MemoryCheckpointStore:
    """`ports.CheckpointStore` in memory, for the threads of one process."""

    def __init__(self) -> None:
        self._states: dict[str, PipelineState] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._changed = threading.Condition()
        self._changes: dict[str, int] = {}
        self._seen = threading.local()
        self._identity = f"memory-{next(_NUMBERS)}"
        self.patience = LOCK_TIMEOUT
        self.tables = MemoryTables()

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> Iterator[MemoryTransaction]:
        with self.tables.changed_by(participants), self._locked(pipeline_id) as transaction:
            yield transaction

    @contextmanager
    def _locked(self, pipeline_id: str) -> Iterator[MemoryTransaction]:
        with self._changed:
            lock = self._locks.setdefault(pipeline_id, threading.Lock())
        if not lock.acquire(timeout=self.patience):
            raise StoreUnavailableError(f"Another transaction has held pipeline {pipeline_id!r} for too long.")
        try:
            before = self._state(pipeline_id)
            transaction = MemoryTransaction(pipeline_id, before.copy())
            yield transaction
            if transaction.refused is not None:
                raise RecordRefusedError(f"A write was refused before: {transaction.refused}. Nothing was changed.")
            if transaction.state != before:
                self._commit(pipeline_id, transaction.state, _is_news(before, transaction.state))
        finally:
            lock.release()

    def _commit(self, pipeline_id: str, state: PipelineState, news: bool) -> None:
        with self._changed:
            self._states[pipeline_id] = state
            self._changes[pipeline_id] = self._changes.get(pipeline_id, 0) + news
            self._changed.notify_all()

    def identity(self) -> str:
        return self._identity

    def pipelines(self) -> list[str]:
        return sorted(id_ for id_, state in self._states.items() if state.last_checkpoint_id > 0 or state.pipeline)

    def pipeline(self, pipeline_id: str) -> PipelineRecord | None:
        return (
            MemoryTransaction(pipeline_id, self._state(pipeline_id)).pipeline() if pipeline_id in self._states else None
        )

    def region(self, pipeline_id: str) -> RegionRecord:
        return self._state(pipeline_id).region

    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None:
        return self._state(pipeline_id).checkpoints.get(checkpoint_id)

    def history(self, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
        checkpoints = self._state(pipeline_id).checkpoints
        return [checkpoints[id_] for id_ in sorted(checkpoints, reverse=True)[:limit]]

    def completed(self, pipeline_id: str) -> list[CheckpointRecord]:
        checkpoints = self._state(pipeline_id).checkpoints
        return [checkpoints[id_] for id_ in sorted(checkpoints) if checkpoints[id_].status is Status.COMPLETED]

    def figures(self, pipeline_id: str) -> LatestFigures:
        state = self._state(pipeline_id)
        latest = [record for record in self.completed(pipeline_id) if record.abandoned_by is None]
        return LatestFigures(
            Counter(record.status for record in state.checkpoints.values()),
            len(state.recoveries),
            self._latest_restore(state),
            latest[-1] if latest else None,
            self._measured(latest[-1]) if latest else None,
            self._state(pipeline_id).lag,
            self._expired_rows(latest[-1]) if latest else 0,
        )

    def _expired_rows(self, record: CheckpointRecord) -> int:
        subtasks = self.subtasks(record.pipeline_id, record.checkpoint_id).values()
        return sum(count_removed(known.snapshot.handles) for known in subtasks)

    def _latest_restore(self, state: PipelineState) -> LatestRestore | None:
        return (
            LatestRestore(state.checkpoints[state.recoveries[-1][0]], state.recoveries[-1][1])
            if state.recoveries
            else None
        )

    def _measured(self, record: CheckpointRecord) -> Measurement:
        assert record.acknowledged_at is not None
        metrics = [known.metrics for known in self.subtasks(record.pipeline_id, record.checkpoint_id).values()]
        return Measurement(
            checkpoint_id=record.checkpoint_id,
            end_to_end_duration=max(0, round((record.acknowledged_at - record.triggered_at).total_seconds() * 1000)),
            checkpointed_size=record.checkpointed_size,
            state_size=record.state_size,
            processed_data=sum(max(0, metric.processed_bytes) for metric in metrics),
            persisted_data=sum(max(0, metric.persisted_bytes) for metric in metrics),
        )

    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]:
        return read_subtasks(self._state(pipeline_id), checkpoint_id)

    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> list[Verdict]:
        return list(self._state(pipeline_id).verdicts.get(checkpoint_id, ()))

    def audit(self, pipeline_id: str | None, limit: int, before: int | None = None) -> list[AuditRecord]:
        found = [each for id_, state in self._states.items() if pipeline_id in (None, id_) for each in state.audit]
        older = [each for each in found if before is None or each.number < before]
        return sorted(older, key=lambda each: each.number, reverse=True)[:limit]

    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        return bool(self.wait_for_changes([pipeline_id], timeout))

    def wait_for_changes(self, pipeline_ids: Collection[str], timeout: float) -> set[str]:
        seen: dict[str, int] | None = getattr(self._seen, "changes", None)
        deadline = time.monotonic() + timeout
        with self._changed:
            if seen is None:
                seen = self._seen.changes = dict(self._changes)
            while not (found := {id_ for id_ in pipeline_ids if self._changes.get(id_, 0) != seen.get(id_, 0)}):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return set()
            seen.update({id_: self._changes[id_] for id_ in found})
            return found

    def _state(self, pipeline_id: str) -> PipelineState:
        known = self._states.get(pipeline_id)
        return PipelineState() if known is None else known


def _is_news(before: PipelineState, after: PipelineState) -> bool:
    """Whether more changed than when somebody who waits was last seen, or what a notifier was told."""
    known = before.requests
    as_before = {
        id_: replace(request, seen_at=known[id_].seen_at) if id_ in known else request
        for id_, request in after.requests.items()
    }
    untold = replace(after, requests=as_before, deliveries=before.deliveries, lag=before.lag)
    return replace(untold, events=before.events if after.last_event == before.last_event else after.events) != before
