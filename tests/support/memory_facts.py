"""What a transaction of the store in memory reads, as `tidegate.postgres.facts` does on Postgres."""

from collections.abc import Iterable
from datetime import datetime

from memory_state import PipelineState, read_subtasks

from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps.committing import CommitterRecord


def is_gone(record: CheckpointRecord) -> bool:
    """Whether it has ended, nothing of it is kept, and its sinks have what they need of it."""
    gone = record.status is Status.DISCARDED and record.notified_at is not None
    return (gone or record.status is Status.FAILED) and record.kind is CheckpointKind.CHECKPOINT


class MemoryFacts:
    """The facts of `ports.StoreTransaction`, over a copy of the pipeline's state."""

    def __init__(self, pipeline_id: str, state: PipelineState) -> None:
        self.pipeline_id = pipeline_id
        self.state = state
        self.refused: str | None = None
        self._next = state.last_checkpoint_id

    def checkpoint(self, checkpoint_id: int) -> CheckpointRecord | None:
        return self.state.checkpoints.get(checkpoint_id)

    def latest_by_request(self, request_id: str) -> CheckpointRecord | None:
        asked = [c for c in self._in_order() if c.request_id == request_id]
        counts = [c for c in asked if c.status is not Status.FAILED and c.abandoned_by is None]
        return (counts or asked or [None])[-1]

    def in_progress(self) -> list[CheckpointRecord]:
        return [c for c in self._in_order() if c.status is Status.IN_PROGRESS]

    def retained(self) -> list[CheckpointRecord]:
        return [c for c in self._in_order() if c.status is Status.COMPLETED and c.abandoned_by is None]

    def unnotified(self) -> list[CheckpointRecord]:
        return [record for record in self.retained() if record.notified_at is None]

    def abandoned(self) -> list[CheckpointRecord]:
        return [c for c in self._in_order() if c.status is Status.COMPLETED and c.abandoned_by is not None]

    def lag(self) -> list[SourceLag]:
        return list(self.state.lag)

    def restores(self) -> list[Restore]:
        return list(self.state.restores)

    def skips(self) -> list[SourceSkip]:
        return list(self.state.skips)

    def named(self, name: str) -> CheckpointRecord | None:
        in_use = (Status.IN_PROGRESS, Status.COMPLETED)
        return next((c for c in self._in_order() if c.name == name and c.status in in_use), None)

    def written_to(self, location: str) -> list[CheckpointRecord]:
        return [record for record in self._in_order() if record.location == location]

    def last_checkpoint_id(self) -> int:
        return self._next

    def latest_completed(self) -> CheckpointRecord | None:
        retained = self.retained()
        return retained[-1] if retained else None

    def subtasks(self, checkpoint_id: int, only: Iterable[SubtaskId] | None = None) -> dict[SubtaskId, SubtaskRecord]:
        return read_subtasks(self.state, checkpoint_id, only)

    def verdicts(self, checkpoint_id: int) -> list[Verdict]:
        return list(self.state.verdicts.get(checkpoint_id, ()))

    def compactions(self) -> list[CompactedRun]:
        return list(self.state.compactions.values())

    def pipeline(self) -> PipelineRecord:
        return self.state.pipeline or PipelineRecord(self.pipeline_id)

    def requests(self) -> list[CheckpointRequest]:
        return list(self.state.requests.values())

    def failed_after(self, checkpoint_id: int) -> list[CheckpointRecord]:
        return [c for c in self._in_order() if c.status is Status.FAILED and c.checkpoint_id > checkpoint_id]

    def endpoints(self) -> list[Endpoint]:
        return list(self.state.endpoints.values())

    def cleaning(self) -> int:
        return sum(c.status is Status.SUBSUMED for c in self._in_order())

    def region(self) -> RegionRecord:
        return self.state.region

    def committer(self) -> CommitterRecord:
        return self.state.committer

    def latest_subsumed(self) -> int | None:
        gone = [c for c in self._in_order() if c.status in {Status.SUBSUMED, Status.DISCARDED}]
        return max((c.checkpoint_id for c in gone if c.abandoned_by is None), default=None)

    def not_rolled_up(self, limit: int) -> list[CheckpointRecord]:
        return [c for c in self._in_order() if is_gone(c) and c.checkpoint_id not in self.state.rolled_up][:limit]

    def imports(self) -> dict[int, datetime]:
        return {id_: seen for id_, (seen, ended) in sorted(self.state.imports.items()) if ended is None}

    def audited(self, request_id: str) -> AuditRecord | None:
        return next((each for each in self.state.audit if each.action.request_id == request_id), None)

    def planned_restore(self, request_id: str) -> PlannedRestore | None:
        return self.state.planned_restores.get(request_id)

    def _in_order(self) -> list[CheckpointRecord]:
        return [self.state.checkpoints[id_] for id_ in sorted(self.state.checkpoints)]
