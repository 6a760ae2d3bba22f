"""One transaction on one pipeline: the port's writes, over an open connection that holds the pipeline's lock.

`facts` has what it reads. Every move is a conditional UPDATE, so a lost race is an update of no rows. `store` locks,
commits and explains errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql

from tidegate.postgres import acknowledgements as acknowledging
from tidegate.postgres import imports as importing
from tidegate.postgres import references
from tidegate.postgres import restores as restoring
from tidegate.postgres.facts import Facts
from tidegate.postgres.rows import (
    checkpoint_values,
    committer_values,
    compaction_values,
    readable,
    region_values,
    request_values,
    verdict_values,
)
from tidegate.postgres.tables import checkpoints, compactions, pipelines, requests, verdicts
from tidegate.protocol import committing, regions
from tidegate.protocol.branches import Branch, Restore
from tidegate.protocol.committing import CommitterRecord, is_committing
from tidegate.protocol.errors import CheckpointNotFoundError
from tidegate.protocol.identity import Endpoint
from tidegate.protocol.lifecycle import Phase, Status, is_legal
from tidegate.protocol.pipelines import PipelineStatus, moved, require_move, restored
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    Acknowledgement,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Deletion,
    SubtaskId,
    Verdict,
)
from tidegate.protocol.regions import RegionRecord, begun, directory_in_use, ended, is_current, swept
from tidegate.protocol.savepoints import Label
from tidegate.protocol.storable import storable_text

_ADD_SUBTASKS = text("""
WITH counter AS (
    UPDATE tidegate.pipelines SET last_checkpoint_id = greatest(last_checkpoint_id, :checkpoint_id)
    WHERE pipeline_id = :pipeline_id
)
INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index)
SELECT :pipeline_id, :checkpoint_id, s.operator_id, s.subtask_index
FROM unnest(CAST(:operator_ids AS text[]), CAST(:subtask_indexes AS integer[])) AS s (operator_id, subtask_index)
""")

_RECORD_ENDPOINT = text("""
INSERT INTO tidegate.endpoints AS e (pipeline_id, role, name, type, place, recorded_at)
VALUES (:pipeline_id, :role, :name, :type, :place, :recorded_at)
ON CONFLICT (pipeline_id, role, name) DO UPDATE SET
    type = excluded.type, place = excluded.place, recorded_at = excluded.recorded_at, place_before = e.place
""")


class PostgresTransaction(Facts):
    """`ports.StoreTransaction` for Postgres. `wrote` says whether anything was changed, `touched` whether a request's
    sign of life was recorded, which sends no NOTIFY."""

    wrote = False
    touched = False

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        require_move(self._pipeline, after)
        said = readable(message)
        self._pipeline = moved(self._pipeline, after, at, said, forgiven_until)
        self._update_pipeline(status=after.value, since=at, message=said, forgiven_until=self._pipeline.forgiven_until)

    def record_endpoints(self, endpoints_: Sequence[Endpoint], at: datetime) -> None:
        for endpoint in endpoints_:
            self._execute(_RECORD_ENDPOINT, **asdict(endpoint), recorded_at=at)

    def put_request(self, request: CheckpointRequest) -> None:
        self.wrote = True
        values = {"pipeline_id": self._pipeline_id, **request_values(request)}
        put = postgresql.insert(requests).values(**values)
        self._connection.execute(put.on_conflict_do_update(constraint="requests_pkey", set_=values))

    def touch_request(self, request_id: str, at: datetime) -> None:
        self.touched = True
        mine = (requests.c.pipeline_id == self._pipeline_id) & (requests.c.request_id == request_id)
        self._connection.execute(update(requests).where(mine).values(seen_at=at))

    def remove_requests(self, request_ids: Sequence[str]) -> None:
        removed = delete(requests).where(
            requests.c.pipeline_id == self._pipeline_id, requests.c.request_id.in_(request_ids)
        )
        self.wrote = self._connection.execute(removed).rowcount > 0 or self.wrote

    def begin_region(self, at: datetime) -> int:
        self._put_region(begun(self._region, at))
        return self._region.attempt

    def touch_region(self, attempt: int, at: datetime) -> bool:
        return is_current(self._region, attempt) and self._put_region(replace(self._region, seen_at=at))

    def end_region(self, attempt: int, at: datetime) -> bool:
        return is_current(self._region, attempt) and self._put_region(ended(self._region, at))

    def _put_region(self, region: RegionRecord) -> bool:
        self._region = region
        return self._update_pipeline(**region_values(region))

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        self._update_pipeline(restores=pipelines.c.restores + 1, restored_checkpoint=checkpoint_id, restored_at=at)

    def begin_restore(self, restore: Restore, present: Branch, message: str, forgiven_until: int) -> None:
        said = storable_text(message)
        self._pipeline = restored(self._pipeline, restore.restored_at, said, forgiven_until)
        self._update_pipeline(
            status=self._pipeline.status.value,
            since=self._pipeline.since,
            message=said,
            forgiven_until=self._pipeline.forgiven_until,
            last_restore=restore.number,
        )
        restoring.record(self._connection, self._pipeline_id, restore, present)

    def mark_rewound(self, number: int, attempt: int, at: datetime) -> bool:
        if not is_committing(self._committer, attempt):
            return False
        self.wrote = True
        restoring.mark_rewound(self._connection, self._pipeline_id, number, at)
        return True

    def begin_export(self, checkpoint_id: int, location: str) -> None:
        self.wrote = True
        self._connection.execute(update(checkpoints).where(self._is(checkpoint_id)).values(location=location))

    def mark_exported(self, checkpoint_id: int, size: int, at: datetime) -> bool:
        values = {"exported_at": at, "exported_size": size}
        there = self._is(checkpoint_id) & (checkpoints.c.status == Status.COMPLETED.value)
        self._connection.execute(update(checkpoints).where(there, checkpoints.c.exported_at.is_(None)).values(**values))
        self.wrote = True
        return self._connection.execute(select(checkpoints.c.exported_at).where(there)).scalar() is not None

    def begin_import(self, after: int, at: datetime) -> int:
        self._last_checkpoint_id = max(self._last_checkpoint_id, after) + 1
        self._update_pipeline(last_checkpoint_id=self._last_checkpoint_id)
        importing.begin(self._connection, self._pipeline_id, self._last_checkpoint_id, at)
        return self._last_checkpoint_id

    def touch_import(self, checkpoint_id: int, at: datetime) -> bool:
        self.touched = True
        return importing.touch(self._connection, self._pipeline_id, checkpoint_id, at)

    def end_import(self, checkpoint_id: int, at: datetime) -> bool:
        self.wrote = True
        return importing.end(self._connection, self._pipeline_id, checkpoint_id, at)

    def _is(self, checkpoint_id: int) -> ColumnElement[bool]:
        return (checkpoints.c.pipeline_id == self._pipeline_id) & (checkpoints.c.checkpoint_id == checkpoint_id)

    def _update_pipeline(self, **values: Any) -> bool:
        self.wrote = True
        self._connection.execute(update(pipelines).where(pipelines.c.pipeline_id == self._pipeline_id).values(**values))
        return True

    def next_checkpoint_id(self) -> int:
        self._last_checkpoint_id += 1
        return self._last_checkpoint_id

    def reserve_numbers(self, checkpoint_id: int, region_attempt: int, commit_attempt: int, at: datetime) -> None:
        self._last_checkpoint_id = max(self._last_checkpoint_id, checkpoint_id)
        self._region = regions.reserved(self._region, region_attempt, at)
        self._committer = committing.reserved(self._committer, commit_attempt)
        self._update_pipeline(
            last_checkpoint_id=self._last_checkpoint_id,
            **region_values(self._region),
            **committer_values(self._committer),
        )

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        """Raises `ValueError` if the record is another pipeline's or its number of subtasks differs."""
        if record.pipeline_id != self._pipeline_id or record.num_subtasks != len(subtasks):
            raise ValueError(f"{record} does not belong to {self._pipeline_id} with {len(subtasks)} subtasks")
        self.wrote = True
        self._connection.execute(insert(checkpoints).values(checkpoint_values(record)))
        self._execute(
            _ADD_SUBTASKS,
            checkpoint_id=record.checkpoint_id,
            operator_ids=[subtask.operator_id for subtask in subtasks],
            subtask_indexes=[subtask.subtask_index for subtask in subtasks],
        )

    def begin_attempt(self, checkpoint_id: int) -> int:
        self.wrote = True
        attempt = acknowledging.begin_attempt(self._connection, self._pipeline_id, checkpoint_id)
        if attempt is None:
            raise self._not_found(checkpoint_id)
        return attempt

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime
    ) -> int:
        self.wrote = True
        remaining = acknowledging.record(self._connection, self._pipeline_id, checkpoint_id, acknowledgements, at)
        if remaining is None:
            raise self._not_found(checkpoint_id)
        return remaining

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Raises `ValueError` if the phases do not follow each other."""
        if not is_legal((Status.IN_PROGRESS, before), (Status.IN_PROGRESS, after)):
            raise ValueError(f"phase {after} cannot follow {before}")
        reached = {"phase": after.value, f"{after.value.lower()}_at": at}
        return self._move(checkpoint_id, Status.IN_PROGRESS, before, reached)

    def record_verdicts(self, checkpoint_id: int, verdicts_: Sequence[Verdict]) -> None:
        self.wrote = True
        key = {"pipeline_id": self._pipeline_id, "checkpoint_id": checkpoint_id}
        self._connection.execute(
            delete(verdicts).where(
                verdicts.c.pipeline_id == self._pipeline_id, verdicts.c.checkpoint_id == checkpoint_id
            )
        )
        if verdicts_:
            self._connection.execute(insert(verdicts), [{**key, **values} for values in verdict_values(verdicts_)])

    def complete(
        self, checkpoint_id: int, at: datetime, metadata_path: str, state_size: int, checkpointed_size: int
    ) -> bool:
        completed = {
            "status": Status.COMPLETED.value,
            "completed_at": at,
            "metadata_path": metadata_path,
            "state_size": state_size,
            "checkpointed_size": checkpointed_size,
        }
        return self._move(checkpoint_id, Status.IN_PROGRESS, Phase.VALIDATED, completed)

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        failed = {
            "status": Status.FAILED.value,
            "failure_reason": reason.name,
            "failure_message": storable_text(message),
            "failed_at": at,
        }
        if not self._move(checkpoint_id, Status.IN_PROGRESS, None, failed):
            return False
        references.release(self._connection, self._pipeline_id, [checkpoint_id], given_up_by=checkpoint_id)
        return True

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        self.wrote = True
        left = (
            update(checkpoints)
            .where(
                checkpoints.c.pipeline_id == self._pipeline_id,
                checkpoints.c.checkpoint_id.in_(list(checkpoint_ids)),
                checkpoints.c.status == Status.COMPLETED.value,
            )
            .values(status=Status.SUBSUMED.value)
            .returning(checkpoints.c.checkpoint_id)
        )
        subsumed = list(self._connection.execute(left).scalars())
        if subsumed:
            references.release(self._connection, self._pipeline_id, subsumed)

    def relabel(self, checkpoint_id: int, label: Label) -> None:
        self.wrote = True
        values = {"name": label.name, "note": readable(label.note)}
        self._connection.execute(update(checkpoints).where(self._is(checkpoint_id)).values(**values))

    def begin_commit(self, at: datetime) -> int:
        self._put_committer(committing.begun(self._committer, at))
        return self._committer.attempt

    def touch_committer(self, attempt: int, at: datetime) -> bool:
        return is_committing(self._committer, attempt) and self._put_committer(replace(self._committer, seen_at=at))

    def end_commit(self, attempt: int) -> bool:
        return is_committing(self._committer, attempt) and self._put_committer(committing.ended(self._committer))

    def _put_committer(self, committer: CommitterRecord) -> bool:
        self._committer = committer
        return self._update_pipeline(**committer_values(committer))

    def mark_notified(self, checkpoint_id: int, attempt: int, at: datetime) -> bool:
        if not is_committing(self._committer, attempt):
            return False
        self.wrote = True
        self._connection.execute(
            update(checkpoints)
            .where(
                checkpoints.c.pipeline_id == self._pipeline_id,
                checkpoints.c.checkpoint_id == checkpoint_id,
                checkpoints.c.notified_at.is_(None),
            )
            .values(notified_at=at)
        )
        return True

    def add_compactions(self, compactions_: Sequence[CompactedRun]) -> None:
        if compactions_:
            self.wrote = True
            rows = [{"pipeline_id": self._pipeline_id, **compaction_values(run)} for run in compactions_]
            self._connection.execute(insert(compactions), rows)

    def remove_compactions(self, paths: Sequence[str]) -> None:
        self.wrote = True
        references.forget_compactions(self._connection, self._pipeline_id, paths)

    # -- garbage

    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        if deletions:
            self.wrote = True
            references.enqueue(self._connection, self._pipeline_id, deletions, given_up_by)

    def pending_deletions(self, limit: int) -> list[Deletion]:
        in_use = directory_in_use(self._pipeline_id, self._region)
        return references.pending(self._connection, self._pipeline_id, limit, in_use)

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None:
        if deletions:
            self.wrote = True
            references.remove(self._connection, self._pipeline_id, deletions)

    def mark_discarded(self) -> None:
        self.wrote = references.discard_subsumed(self._connection, self._pipeline_id) > 0 or self.wrote

    def mark_swept(self, checkpoint_ids: Sequence[int]) -> None:
        if checkpoint_ids:
            self.wrote = True
            self._connection.execute(
                update(checkpoints)
                .where(
                    checkpoints.c.pipeline_id == self._pipeline_id,
                    checkpoints.c.checkpoint_id.in_(list(checkpoint_ids)),
                )
                .values(swept=True)
            )
            importing.forget(self._connection, self._pipeline_id, list(checkpoint_ids))

    def live_paths(self, checkpoint_id: int) -> set[Deletion]:
        return references.live_paths(self._connection, self._pipeline_id, checkpoint_id)

    def live_below(self, directory: str) -> set[Deletion]:
        return references.live_below(self._connection, self._pipeline_id, directory)

    def mark_regions_swept(self, attempt: int) -> None:
        self._put_region(swept(self._region, attempt))

    # -- inside

    def _execute(self, statement: Any, **parameters: Any) -> Any:
        self.wrote = True
        return self._connection.execute(statement, {"pipeline_id": self._pipeline_id, **parameters})

    def _move(self, checkpoint_id: int, status: Status, phase: Phase | None, values: Mapping[str, Any]) -> bool:
        self.wrote = True
        moving = update(checkpoints).where(
            checkpoints.c.pipeline_id == self._pipeline_id,
            checkpoints.c.checkpoint_id == checkpoint_id,
            checkpoints.c.status == status.value,
        )
        if phase is not None:
            moving = moving.where(checkpoints.c.phase == phase.value)
        return self._connection.execute(moving.values(**values)).rowcount == 1

    def _not_found(self, checkpoint_id: int) -> CheckpointNotFoundError:
        return CheckpointNotFoundError(
            f"Pipeline {self._pipeline_id!r} has no checkpoint {checkpoint_id}. Nothing was changed."
        )
