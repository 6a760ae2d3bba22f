"""One transaction on one pipeline: the port's writes, over an open connection that holds the pipeline's lock.

`facts` has the reads, `pipeline_writes` the writes about the pipeline as a whole. Every move is a conditional
UPDATE, so a lost race is an update of no rows. `store` locks, commits and explains errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import CTE, RowMapping, Update, bindparam, func, insert, select, text, update

from tidegate.postgres import acknowledgements as acknowledging
from tidegate.postgres import figures, references, rollup, snapshots, verdict_writes
from tidegate.postgres import imports as importing
from tidegate.postgres.pipeline_writes import PipelineWrites
from tidegate.postgres.rows import (
    checkpoint_record,
    checkpoint_values,
    committer_values,
    compaction_values,
    readable,
)
from tidegate.postgres.tables import checkpoints, compactions, pipelines
from tidegate.protocol.continuous.regions import directory_in_use, swept
from tidegate.protocol.facts.errors import CheckpointNotFoundError
from tidegate.protocol.facts.lifecycle import Phase, Status, is_legal
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    CompactedRun,
    Decided,
    Decision,
    Deletion,
    SubtaskId,
    Verdict,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.steps import committing
from tidegate.protocol.steps.committing import CommitterRecord, is_committing
from tidegate.protocol.text.storable import storable_text

_ADD_CHECKPOINT = """
WITH counter AS (
    UPDATE tidegate.pipelines SET last_checkpoint_id = greatest(last_checkpoint_id, :checkpoint_id)
    WHERE pipeline_id = :pipeline_id
), added AS (
    INSERT INTO tidegate.checkpoints (COLUMNS) VALUES (PARAMETERS)
    RETURNING pipeline_id, checkpoint_id
)
INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index)
SELECT added.pipeline_id, added.checkpoint_id, s.operator_id, s.subtask_index
FROM added CROSS JOIN
    unnest(CAST(:operator_ids AS text[]), CAST(:subtask_indexes AS integer[])) AS s (operator_id, subtask_index)
"""
#: A commit must outlast a crash of the server, also where a role's default is not to wait for the disk, because sinks
#: then make the completed rows visible.
_DURABLE = text("set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)")
_COLUMNS = ", ".join(CheckpointRecord.__slots__)
_PARAMETERS = ", ".join(f":{name}" for name in CheckpointRecord.__slots__)
_ADD = text(_ADD_CHECKPOINT.replace("COLUMNS", _COLUMNS).replace("PARAMETERS", _PARAMETERS)).bindparams(
    bindparam("operators", type_=checkpoints.c.operators.type),
    bindparam("committed_sinks", type_=checkpoints.c.committed_sinks.type),
)


class PostgresTransaction(PipelineWrites):
    """`ports.StoreTransaction` for Postgres."""

    _begins_commit = False

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        """Add a checkpoint in progress. Raise `ValueError` if it is another pipeline's, or its number of subtasks
        differs."""
        if record.pipeline_id != self._pipeline_id or record.num_subtasks != len(subtasks):
            raise ValueError(f"{record} does not belong to {self._pipeline_id} with {len(subtasks)} subtasks")
        self._execute(
            _ADD,
            **checkpoint_values(record),
            operator_ids=[subtask.operator_id for subtask in subtasks],
            subtask_indexes=[subtask.subtask_index for subtask in subtasks],
        )
        self._has_moved()

    def begin_attempt(self, checkpoint_id: int) -> int:
        self._has_written()
        record = self._known_record(checkpoint_id)
        narrow = record is not None and record.num_subtasks <= snapshots.NARROW
        attempt, subtasks = acknowledging.begin_attempt(self._connection, self._pipeline_id, checkpoint_id, narrow)
        if attempt is None:
            raise self._not_found(checkpoint_id)
        self._known.pop(("subtasks", checkpoint_id), None)
        if record is not None and record.num_subtasks == len(subtasks):
            self._known["subtasks", checkpoint_id] = subtasks
        return attempt

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime, moves: bool = False
    ) -> int:
        self._known.pop(("subtasks", checkpoint_id), None)
        row = acknowledging.record(self._connection, self._pipeline_id, checkpoint_id, acknowledgements, at, moves)
        if row is None:
            raise self._not_found(checkpoint_id)
        record = checkpoint_record(row)
        self._is_now(record)
        return record.num_subtasks - record.num_acknowledged

    def accept(self, checkpoint_id: int, verdicts: Sequence[Verdict], at: datetime) -> bool:
        return self._record_verdicts(checkpoint_id, verdicts, at)

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Move a checkpoint to its next phase. Raise `ValueError` if the phases do not follow each other."""
        if Phase.HELD in (before, after):
            raise ValueError("a hold begins with `hold` and ends with `decide`")
        if not is_legal((Status.IN_PROGRESS, before), (Status.IN_PROGRESS, after)):
            raise ValueError(f"phase {after} cannot follow {before}")
        reached = {"phase": after.value, f"{after.value.lower()}_at": at}
        return self._move(checkpoint_id, Status.IN_PROGRESS, before, reached)

    def record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict]) -> None:
        self._record_verdicts(checkpoint_id, verdicts, None)

    def hold(self, checkpoint_id: int, until: datetime, message: str, at: datetime) -> bool:
        held = {
            "phase": Phase.HELD.value,
            "held_at": at,
            "held_until": until,
            "held_message": storable_text(message),
        }
        return self._move(checkpoint_id, Status.IN_PROGRESS, Phase.ACKNOWLEDGED, held)

    def decide(self, checkpoint_id: int, decided: Decided, deadline: datetime) -> bool:
        values: dict[str, Any] = {
            "decision": decided.decision.value,
            "decided_at": decided.at,
            "decided_by": decided.by,
            "decision_comment": readable(decided.comment),
        }
        if decided.decision is Decision.APPROVED:
            values |= {"phase": Phase.VALIDATED.value, "validated_at": decided.at, "deadline": deadline}
        return self._move(checkpoint_id, Status.IN_PROGRESS, Phase.HELD, values)

    def correct_deadline(self, checkpoint_id: int, deadline: datetime) -> bool:
        return self._move(checkpoint_id, Status.IN_PROGRESS, None, {"deadline": deadline})

    def drop_staged(self, checkpoint_id: int, files: Sequence[Deletion]) -> None:
        if files:
            self.wrote = True
            references.drop(self._connection, self._pipeline_id, checkpoint_id, files)

    def complete(
        self,
        checkpoint_id: int,
        at: datetime,
        metadata_path: str,
        state_size: int,
        checkpointed_size: int,
        committed_sinks: Sequence[str] = (),
    ) -> bool:
        return self._has_become(
            figures.complete(
                self._connection,
                self._pipeline_id,
                checkpoint_id,
                completed_at=at,
                metadata_path=metadata_path,
                state_size=state_size,
                checkpointed_size=checkpointed_size,
                committed_sinks=list(committed_sinks),
            )
        )

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        sentence = storable_text(message)
        failed = references.fail(self._connection, self._pipeline_id, checkpoint_id, reason.name, sentence, at)
        return self._has_become(failed)

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        self._are_subsumed(references.subsume(self._connection, self._pipeline_id, checkpoint_ids))

    def relabel(self, checkpoint_id: int, label: Label) -> None:
        self.wrote = True
        values = {"name": label.name, "note": readable(label.note)}
        self._connection.execute(update(checkpoints).where(self._is(checkpoint_id)).values(**values))

    def begin_commit(self, at: datetime) -> int:
        self._committer = committing.begun(self._committer, at)
        self._has_written()
        self._begins_commit = True
        return self._committer.attempt

    def touch_committer(self, attempt: int, at: datetime) -> bool:
        return is_committing(self._committer, attempt) and self._put_committer(replace(self._committer, seen_at=at))

    def end_commit(self, attempt: int, problem: str | None = None) -> bool:
        ended = committing.ended(self._committer, readable(problem))
        return is_committing(self._committer, attempt) and self._put_committer(ended)

    def _put_committer(self, committer: CommitterRecord) -> bool:
        self._committer = committer
        self._begins_commit = False
        return self._update_pipeline(**committer_values(committer))

    def _this_attempt(self) -> CTE:
        """Return the update that records the commit attempt, which is written with another statement."""
        self._begins_commit = False
        row = update(pipelines).where(pipelines.c.pipeline_id == self._pipeline_id)
        return row.values(committer_values(self._committer)).cte("attempt")

    def mark_notified(self, checkpoint_id: int, attempt: int, at: datetime, ends: bool = False) -> bool:
        if not is_committing(self._committer, attempt):
            return False
        first = update(checkpoints).where(self._is(checkpoint_id), checkpoints.c.notified_at.is_(None))
        marked = first.values(notified_at=at)
        if ends:
            self._committer = committing.ended(self._committer)
            marked = marked.add_cte(self._this_attempt())
        self._write(marked)
        return True

    def add_compactions(self, compactions_: Sequence[CompactedRun]) -> None:
        if compactions_:
            self._has_written("compacted")
            rows = [{"pipeline_id": self._pipeline_id, **compaction_values(run)} for run in compactions_]
            self._connection.execute(insert(compactions), rows)

    def remove_compactions(self, paths: Sequence[str]) -> None:
        self._has_written("compacted")
        references.forget_compactions(self._connection, self._pipeline_id, paths)

    # -- garbage

    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        if deletions:
            self._has_written()
            references.enqueue(self._connection, self._pipeline_id, deletions, given_up_by)

    def pending_deletions(self, limit: int) -> list[Deletion]:
        in_use = directory_in_use(self._pipeline_id, self._region)
        queued, self._known["unswept"] = references.garbage(self._connection, self._pipeline_id, limit, in_use)
        return queued

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None:
        if deletions:
            self._has_written()
            references.remove(self._connection, self._pipeline_id, deletions)

    def mark_discarded(self, gone: Sequence[Deletion] = ()) -> None:
        if gone:
            self._has_written()
        if references.discard_subsumed(self._connection, self._pipeline_id, gone) > 0:
            self._has_moved()

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

    def roll_up(self, checkpoint_ids: Sequence[int]) -> None:
        self.wrote = True
        rollup.roll_up(self._connection, self._pipeline_id, checkpoint_ids)

    def live_paths(self, *checkpoint_ids: int) -> set[Deletion]:
        if not checkpoint_ids:
            return set()
        return references.live_paths(self._connection, self._pipeline_id, checkpoint_ids)

    def live_below(self, directory: str) -> set[Deletion]:
        return references.live_below(self._connection, self._pipeline_id, directory)

    def mark_regions_swept(self, attempt: int) -> None:
        self._put_region(swept(self._region, attempt))

    def conclude(self) -> None:
        """Execute the last statement of a transaction that wrote. Its success shows that no earlier statement was
        refused. It also records the commit attempt that has begun."""
        notification = select(func.pg_notify("tidegate", self._pipeline_id), _DURABLE)
        self._connection.execute(notification.add_cte(self._this_attempt()) if self._begins_commit else notification)

    # -- inside

    def _move(self, checkpoint_id: int, status: Status, phase: Phase | None, values: Mapping[str, Any]) -> bool:
        moving = update(checkpoints).where(self._is(checkpoint_id), checkpoints.c.status == status.value)
        if phase is not None:
            moving = moving.where(checkpoints.c.phase == phase.value)
        return self._write(moving.values(**values))

    def _write(self, statement: Update) -> bool:
        """Execute the update, remember the checkpoint as it is now, and return whether one was changed."""
        return self._has_become(self._connection.execute(statement.returning(*checkpoints.c)).mappings().one_or_none())

    def _has_become(self, row: RowMapping | None) -> bool:
        self._wrote = True
        if row is None:
            return False
        self._is_now(checkpoint_record(row))
        return True

    def _record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict], accepted_at: datetime | None) -> bool:
        self._has_written()
        given, row = verdict_writes.replace(self._connection, self._pipeline_id, checkpoint_id, verdicts, accepted_at)
        if accepted_at is None or row is not None:
            self._known["verdicts", checkpoint_id] = given
        return self._has_become(row)

    def _not_found(self, checkpoint_id: int) -> CheckpointNotFoundError:
        return CheckpointNotFoundError(
            f"Pipeline {self._pipeline_id!r} has no checkpoint {checkpoint_id}. Nothing was changed."
        )
