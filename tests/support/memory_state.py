"""What the in-memory store holds about one pipeline, and what of it is live."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Deletion,
    HandleKind,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.events import Event, Undelivered
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps.committing import CommitterRecord


@dataclass(slots=True)
class PipelineState:
    """Everything about one pipeline. Values are never changed in place, so a shallow copy is a savepoint."""

    last_checkpoint_id: int = 0
    checkpoints: dict[int, CheckpointRecord] = field(default_factory=dict)
    subtasks: dict[int, dict[SubtaskId, SubtaskRecord]] = field(default_factory=dict)
    verdicts: dict[int, list[Verdict]] = field(default_factory=dict)
    compactions: dict[str, CompactedRun] = field(default_factory=dict)
    deletions: dict[Deletion, int | None] = field(default_factory=dict)  # and the checkpoint that discarded it
    swept: frozenset[int] = frozenset()
    rolled_up: frozenset[int] = frozenset()
    pipeline: PipelineRecord | None = None
    requests: dict[str, CheckpointRequest] = field(default_factory=dict)
    region: RegionRecord = field(default_factory=RegionRecord)
    committer: CommitterRecord = field(default_factory=CommitterRecord)
    recoveries: tuple[tuple[int, datetime], ...] = ()  # each checkpoint gone on from, and when
    restores: tuple[Restore, ...] = ()
    endpoints: dict[tuple[Role, str], Endpoint] = field(default_factory=dict)
    imports: dict[int, tuple[datetime, datetime | None]] = field(default_factory=dict)  # seen, and ended
    audit: tuple[AuditRecord, ...] = ()
    planned_restores: dict[str, PlannedRestore] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    last_event: int = 0
    deliveries: dict[tuple[int, str], Undelivered | None] = field(default_factory=dict)  # None: it was taken
    lag: tuple[SourceLag, ...] = ()
    skips: tuple[SourceSkip, ...] = ()

    def copy(self) -> "PipelineState":
        return PipelineState(
            self.last_checkpoint_id,
            dict(self.checkpoints),
            dict(self.subtasks),
            dict(self.verdicts),
            dict(self.compactions),
            dict(self.deletions),
            self.swept,
            self.rolled_up,
            self.pipeline,
            dict(self.requests),
            self.region,
            self.committer,
            self.recoveries,
            self.restores,
            dict(self.endpoints),
            dict(self.imports),
            self.audit,
            dict(self.planned_restores),
            dict(self.events),
            self.last_event,
            dict(self.deliveries),
            self.lag,
            self.skips,
        )

    def handles(self, checkpoint_id: int) -> Iterator[tuple[Deletion, StateHandle]]:
        for record in self.subtasks.get(checkpoint_id, {}).values():
            for handle in record.snapshot.handles:
                yield file_of(record.subtask, handle), handle

    def live(self) -> Iterator[tuple[int, int, Deletion]]:
        """Who refers to it (0: a compacted run), who created it, and what: see `rules.LIVE_REFERENCES`."""
        for id_, checkpoint in self.checkpoints.items():
            if kept := _kept(checkpoint):
                for file, handle in self.handles(id_):
                    if handle.kind in kept:
                        yield id_, handle.created_by, file
            if checkpoint.status is Status.COMPLETED and checkpoint.metadata_path is not None:
                yield id_, id_, Deletion("storage", checkpoint.metadata_path)
        for run in self.compactions.values():
            yield 0, run.handle.created_by, Deletion("storage", run.handle.path)


def _kept(checkpoint: CheckpointRecord) -> frozenset[HandleKind]:
    match checkpoint.status:
        case Status.IN_PROGRESS:
            return frozenset(HandleKind)
        case Status.COMPLETED:
            return frozenset(HandleKind) - {HandleKind.EXCHANGE}
        case Status.SUBSUMED if checkpoint.notified_at is None and checkpoint.abandoned_by is None:
            return frozenset({HandleKind.STAGED})
        case _:
            return frozenset()


def file_of(subtask: SubtaskId, handle: StateHandle) -> Deletion:
    staged = handle.kind is HandleKind.STAGED
    return Deletion(f"sink:{subtask.operator_id}" if staged else "storage", handle.path)


def read_subtasks(
    state: PipelineState, checkpoint_id: int, only: Iterable[SubtaskId] | None = None
) -> dict[SubtaskId, SubtaskRecord]:
    held = state.subtasks.get(checkpoint_id, {})
    named = held.keys() if only is None else held.keys() & set(only)
    return {subtask: held[subtask] for subtask in sorted(named)}


def as_json(value: Any) -> Any:
    """As it comes back from a JSON column."""
    return json.loads(json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False))
