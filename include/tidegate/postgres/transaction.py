"""One transaction on one pipeline: the port's writes, over an open connection that holds the pipeline's lock.

`facts` has what it reads, `pipeline_writes` what it writes about the pipeline as a whole. Every move is a conditional
UPDATE, so a lost race is an update of no rows. `store` locks, commits and explains errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Update, delete, insert, text, update

from tidegate.postgres import acknowledgements as acknowledging
from tidegate.postgres import folding, references
from tidegate.postgres import imports as importing
from tidegate.postgres.figures import sum_up
from tidegate.postgres.pipeline_writes import PipelineWrites
from tidegate.postgres.rows import (
    checkpoint_record,
    checkpoint_values,
    committer_values,
    compaction_values,
    readable,
    verdict_record,
    verdict_values,
)
from tidegate.postgres.tables import checkpoints, compactions, verdicts
from tidegate.protocol import committing
from tidegate.protocol.committing import CommitterRecord, is_committing
from tidegate.protocol.errors import CheckpointNotFoundError
from tidegate.protocol.lifecycle import Phase, Status, is_legal
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    Acknowledgement,
    CheckpointRecord,
    CompactedRun,
    Decided,
    Decision,
    Deletion,
    SubtaskId,
    Verdict,
)
from tidegate.protocol.regions import directory_in_use, swept
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


class PostgresTransaction(PipelineWrites):
    """`ports.StoreTransaction` for Postgres."""

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        """Raises `ValueError` if the record is another pipeline's or its number of subtasks differs."""
        if record.pipeline_id != self._pipeline_id or record.num_subtasks != len(subtasks):
            raise ValueError(f"{record} does not belong to {self._pipeline_id} with {len(subtasks)} subtasks")
        self._connection.execute(insert(checkpoints).values(checkpoint_values(record)))
        self._execute(
            _ADD_SUBTASKS,
            checkpoint_id=record.checkpoint_id,
            operator_ids=[subtask.operator_id for subtask in subtasks],
            subtask_indexes=[subtask.subtask_index for subtask in subtasks],
        )
        self._has_moved()

    def begin_attempt(self, checkpoint_id: int) -> int:
        self._has_written()
        attempt = acknowledging.begin_attempt(self._connection, self._pipeline_id, checkpoint_id)
        if attempt is None:
            raise self._not_found(checkpoint_id)
        return attempt

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime
    ) -> int:
        known = self.checkpoint(checkpoint_id)
        counts = acknowledging.record(self._connection, self._pipeline_id, checkpoint_id, acknowledgements, at)
        if counts is None or known is None:
            raise self._not_found(checkpoint_id)
        self._is_now(known.moved(num_acknowledged=counts.acknowledged, num_finished=counts.finished))
        return known.num_subtasks - counts.acknowledged

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Raises `ValueError` if the phases do not follow each other."""
        if Phase.HELD in (before, after):
            raise ValueError("a hold begins with `hold` and ends with `decide`")
        if not is_legal((Status.IN_PROGRESS, before), (Status.IN_PROGRESS, after)):
            raise ValueError(f"phase {after} cannot follow {before}")
        reached = {"phase": after.value, f"{after.value.lower()}_at": at}
        return self._move(checkpoint_id, Status.IN_PROGRESS, before, reached)

    def record_verdicts(self, checkpoint_id: int, verdicts_: Sequence[Verdict]) -> None:
        self._has_written()
        key = {"pipeline_id": self._pipeline_id, "checkpoint_id": checkpoint_id}
        self._connection.execute(
            delete(verdicts).where(
                verdicts.c.pipeline_id == self._pipeline_id, verdicts.c.checkpoint_id == checkpoint_id
            )
        )
        self._known["verdicts", checkpoint_id] = []
        if verdicts_:
            added = insert(verdicts).returning(*verdicts.c, sort_by_parameter_order=True)
            rows = self._connection.execute(added, [{**key, **values} for values in verdict_values(verdicts_)])
            self._known["verdicts", checkpoint_id] = [verdict_record(row) for row in rows.mappings()]

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

    def drop_staged(self, checkpoint_id: int, files: Sequence[Deletion]) -> None:
        if files:
            self.wrote = True
            references.drop(self._connection, self._pipeline_id, checkpoint_id, files)

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
        if not self._move(checkpoint_id, Status.IN_PROGRESS, Phase.VALIDATED, completed):
            return False
        sum_up(self._connection, self._pipeline_id, checkpoint_id)
        return True

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
        rest = [record for record in self._known.get("completed", ()) if record.checkpoint_id not in subsumed]
        self._has_moved(*rest)
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
        first = update(checkpoints).where(self._is(checkpoint_id), checkpoints.c.notified_at.is_(None))
        self._write(first.values(notified_at=at))
        return True

    def add_compactions(self, compactions_: Sequence[CompactedRun]) -> None:
        if compactions_:
            self._has_written()
            rows = [{"pipeline_id": self._pipeline_id, **compaction_values(run)} for run in compactions_]
            self._connection.execute(insert(compactions), rows)

    def remove_compactions(self, paths: Sequence[str]) -> None:
        self._has_written()
        references.forget_compactions(self._connection, self._pipeline_id, paths)

    # -- garbage

    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        if deletions:
            self._has_written()
            references.enqueue(self._connection, self._pipeline_id, deletions, given_up_by)

    def pending_deletions(self, limit: int) -> list[Deletion]:
        in_use = directory_in_use(self._pipeline_id, self._region)
        return references.pending(self._connection, self._pipeline_id, limit, in_use)

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None:
        if deletions:
            self._has_written()
            references.remove(self._connection, self._pipeline_id, deletions)

    def mark_discarded(self) -> None:
        if references.discard_subsumed(self._connection, self._pipeline_id) > 0:
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

    def fold(self, checkpoint_ids: Sequence[int]) -> None:
        self.wrote = True
        folding.fold(self._connection, self._pipeline_id, checkpoint_ids)

    def live_paths(self, checkpoint_id: int) -> set[Deletion]:
        return references.live_paths(self._connection, self._pipeline_id, checkpoint_id)

    def live_below(self, directory: str) -> set[Deletion]:
        return references.live_below(self._connection, self._pipeline_id, directory)

    def mark_regions_swept(self, attempt: int) -> None:
        self._put_region(swept(self._region, attempt))

    # -- inside

    def _move(self, checkpoint_id: int, status: Status, phase: Phase | None, values: Mapping[str, Any]) -> bool:
        moving = update(checkpoints).where(self._is(checkpoint_id), checkpoints.c.status == status.value)
        if phase is not None:
            moving = moving.where(checkpoints.c.phase == phase.value)
        return self._write(moving.values(**values))

    def _write(self, one: Update) -> bool:
        """Whether a checkpoint was changed. It is known from then on as it is now."""
        row = self._connection.execute(one.returning(*checkpoints.c)).mappings().one_or_none()
        self._wrote = True
        if row is None:
            return False
        self._is_now(checkpoint_record(row))
        return True

    def _not_found(self, checkpoint_id: int) -> CheckpointNotFoundError:
        return CheckpointNotFoundError(
            f"Pipeline {self._pipeline_id!r} has no checkpoint {checkpoint_id}. Nothing was changed."
        )
