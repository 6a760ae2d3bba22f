"""Writes of `MemoryTransaction` that concern the pipeline as a whole: requests, regions, restores, numbers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from memory_events import MemoryEvents
from memory_state import as_json

from tidegate.protocol.continuous import regions
from tidegate.protocol.continuous.regions import begun, ended, is_current
from tidegate.protocol.facts.branches import Branch, Restore
from tidegate.protocol.facts.errors import CheckpointNotFoundError, RecordRefusedError
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.pipelines import PipelineStatus, moved, require_move, restored
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
)
from tidegate.protocol.observing.actions import ActionAnswer, AuditRecord, UserAction, recordable, recordable_answer
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps import committing
from tidegate.protocol.steps.committing import is_committing
from tidegate.protocol.text.storable import storable_json, storable_text

#: Of a planned restore, what stays as it is once this is known.
_STAYS = {"planned_at": ("planned_at", "document", "digest", "refusal"), "confirmed": ("confirmed", "accepted")}
_NUMBERS = count(1)  # of what is on record, over all pipelines


class MemoryPipelineWrites(MemoryEvents):
    def record_action(self, action: UserAction, answer: ActionAnswer, at: datetime) -> AuditRecord:
        known, told = recordable(action), recordable_answer(answer)
        self._require(self.audited(known.request_id) is None, "the id is of another action")
        known = replace(known, details=as_json(known.details))
        record = AuditRecord(next(_NUMBERS), self.pipeline_id, at, known, told)
        self.state.audit = (*self.state.audit, record)
        return replace(record, answer=replace(told, cause=answer.cause))

    def put_planned_restore(self, planned: PlannedRestore) -> None:
        known = self.planned_restore(planned.request_id)
        document = None if planned.document is None else as_json(storable_json(planned.document))
        planned = replace(planned, document=document)
        if known is not None:
            self._require(
                (known.target, known.requested) == (planned.target, planned.requested), "it was asked otherwise"
            )
            for after, parts in _STAYS.items():
                before, now = ([getattr(each, part) for part in parts] for each in (known, planned))
                self._require(getattr(known, after) is None or before == now, f"it stays as it was {after}")
        self._require((planned.document is None) == (planned.digest is None), "a plan has a digest")
        answers = sum(each is not None for each in (planned.document, planned.refusal))
        self._require(answers == (planned.planned_at is not None), "it is planned or refused")
        self._require(planned.confirmed is None or planned.document is not None, "there is no plan to confirm")
        self.state.planned_restores[planned.request_id] = planned

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        require_move(self.pipeline(), after)
        self.state.pipeline = moved(self.pipeline(), after, at, message and storable_text(message), forgiven_until)
        in_range = 0 <= self.state.pipeline.forgiven_until <= self.state.last_checkpoint_id
        self._require(in_range, "failures to come are forgiven")

    def record_endpoints(self, endpoints: Sequence[Endpoint], at: datetime) -> None:
        for endpoint in endpoints:
            self._require(bool(endpoint.name and endpoint.type), "it has no name or type")
            self.state.endpoints[endpoint.key] = endpoint

    def record_skips(self, skips: Sequence[SourceSkip]) -> None:
        self._require(all(skip.lost for skip in skips), "nothing is lost")
        stored = (replace(skip, position=as_json(skip.position)) for skip in skips)
        self.state.skips = (*self.state.skips, *stored)

    def record_dag(self, dag_id: str, at: datetime) -> None:
        self._require(bool(dag_id), "the DAG has no id")

    def record_lag(self, lags: Sequence[SourceLag]) -> None:
        self._require(all(lag.pending >= 0 and lag.bytes >= -1 and lag.unit for lag in lags), "the lag is none")
        self.state.lag = tuple(sorted(lags, key=lambda lag: lag.source))

    def put_request(self, request: CheckpointRequest) -> None:
        self._require(bool(request.request_id), "the request has no id")
        self._require(request.seen_at >= request.asked_at, "it was seen before it was asked")
        self._require((request.dropped is None) == (request.dropped_message is None), "it does not say why")
        self._require_drain_to_stop(request)
        message = request.dropped_message and storable_text(request.dropped_message)
        self.state.requests[request.request_id] = replace(request, dropped_message=message)

    def touch_request(self, request_id: str, at: datetime) -> None:
        if (request := self.state.requests.get(request_id)) is not None:
            self.put_request(replace(request, seen_at=at))

    def remove_requests(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            self.state.requests.pop(request_id, None)

    def begin_region(self, at: datetime) -> int:
        self.state.region = begun(self.state.region, at)
        return self.state.region.attempt

    def touch_region(self, attempt: int, at: datetime) -> bool:
        if current := is_current(self.state.region, attempt):
            self.state.region = replace(self.state.region, seen_at=at)
        return current

    def end_region(self, attempt: int, at: datetime) -> bool:
        if current := is_current(self.state.region, attempt):
            self.state.region = ended(self.state.region, at)
        return current

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        self._require(1 <= checkpoint_id <= self.state.last_checkpoint_id, "a checkpoint to come is restored")
        self.state.recoveries = (*self.state.recoveries, (checkpoint_id, at))

    def begin_restore(self, restore: Restore, present: Branch, message: str, forgiven_until: int) -> None:
        self._require(restore.number == len(self.state.restores) + 1, "the number is taken")
        self._require(1 <= restore.checkpoint_id <= restore.last_checkpoint_id, "a checkpoint to come is restored")
        undone = {earlier.undoes for earlier in self.state.restores}
        self._require(restore.undoes is None or restore.undoes not in undone, "it was undone before")
        self._require(restore.imported in (None, restore.last_checkpoint_id + 1), "it is not the next one")
        self.state.pipeline = restored(self.pipeline(), restore.restored_at, storable_text(message), forgiven_until)
        self.state.restores = (*self.state.restores, restore)
        for record in self._in_order():
            if record.status in COMMITTED:
                by = None if record.checkpoint_id in present else record.abandoned_by or restore.number
                self.state.checkpoints[record.checkpoint_id] = record.moved(abandoned_by=by)
        count = [c.request_id for c in self._in_order() if c.status is not Status.FAILED and c.abandoned_by is None]
        self._require(len(set(count)) == len(count), "a request has two checkpoints")

    def begin_export(self, checkpoint_id: int, location: str) -> None:
        known = self._known(checkpoint_id)
        self._require(known.kind is not CheckpointKind.CHECKPOINT and known.status in COMMITTED, "it is no savepoint")
        self._require(known.location in (None, location) and bool(location), "it is elsewhere")
        self.state.checkpoints[checkpoint_id] = known.moved(location=location)

    def mark_exported(self, checkpoint_id: int, size: int, at: datetime) -> bool:
        known = self._known(checkpoint_id)
        if known.status is not Status.COMPLETED:
            return False
        self._require(known.location is not None and size >= 0, "nothing was exported")
        if known.exported_at is None:
            self.state.checkpoints[checkpoint_id] = known.moved(exported_at=at, exported_size=size)
        return True

    def begin_import(self, after: int, at: datetime) -> int:
        self._next = self.state.last_checkpoint_id = max(self._next, after) + 1
        self.state.imports[self._next] = (at, None)
        return self._next

    def touch_import(self, checkpoint_id: int, at: datetime) -> bool:
        if there := checkpoint_id in self.imports():
            self.state.imports[checkpoint_id] = (at, None)
        return there

    def end_import(self, checkpoint_id: int, at: datetime) -> bool:
        if there := checkpoint_id in self.imports():
            self.state.imports[checkpoint_id] = (self.state.imports[checkpoint_id][0], at)
        return there

    def mark_rewound(self, number: int, attempt: int, at: datetime) -> bool:
        current = is_committing(self.state.committer, attempt)
        if current:
            self.state.restores = tuple(
                replace(each, rewound_at=at) if each.number == number and each.rewound_at is None else each
                for each in self.state.restores
            )
        return current

    def begin_commit(self, at: datetime) -> int:
        attempt = self.state.committer.attempt
        self.state.committer = committing.begun(self.state.committer, at)
        self._require(self.state.committer.attempt > attempt, "an attempt is given out a second time")
        return self.state.committer.attempt

    def touch_committer(self, attempt: int, at: datetime) -> bool:
        if current := is_committing(self.state.committer, attempt):
            self.state.committer = replace(self.state.committer, seen_at=at)
        return current

    def end_commit(self, attempt: int, problem: str | None = None) -> bool:
        if current := is_committing(self.state.committer, attempt):
            self.state.committer = committing.ended(self.state.committer, problem and storable_text(problem))
        return current

    def next_checkpoint_id(self) -> int:
        self._next += 1
        return self._next

    def reserve_numbers(self, checkpoint_id: int, region_attempt: int, commit_attempt: int, at: datetime) -> None:
        self._next = self.state.last_checkpoint_id = max(self._next, checkpoint_id)
        self.state.region = regions.reserved(self.state.region, region_attempt, at)
        self.state.committer = committing.reserved(self.state.committer, commit_attempt)

    # -- inside

    def _known(self, checkpoint_id: int) -> CheckpointRecord:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None:
            raise CheckpointNotFoundError(f"Pipeline {self.pipeline_id!r} has no checkpoint {checkpoint_id}.")
        return checkpoint

    def _require_label(self, record: CheckpointRecord) -> None:
        labelled = record.name is not None or record.note is not None
        self._require(not labelled or record.kind is not CheckpointKind.CHECKPOINT, "a checkpoint has a name")
        holder = None if record.name is None else self.named(record.name)
        self._require(holder is None or holder.checkpoint_id == record.checkpoint_id, "the name is taken")

    def _require_drain_to_stop(self, asked: CheckpointRecord | CheckpointRequest) -> None:
        only_to_stop = not asked.drain or asked.kind is CheckpointKind.SYNC_SAVEPOINT
        self._require(only_to_stop, "only a savepoint to stop with drains")

    def _require(self, condition: bool, otherwise: str) -> None:
        if not condition:
            self.refused = otherwise
            raise RecordRefusedError(f"The store refused a row of pipeline {self.pipeline_id!r}: {otherwise}.")
