"""One checkpoint without its subtasks and files."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from tidegate.postgres import reads
from tidegate.postgres.rows import checkpoint_record
from tidegate.postgres.tables import checkpoints
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.names import Fork
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord
from tidegate.reading.advice import ADVICE, UNHARMED
from tidegate.reading.answer import RestoreAt
from tidegate.reading.checkpoint_answers import (
    CheckpointDetails,
    Failure,
    PhaseSpan,
    Relations,
    Subtask,
    TaskWithAll,
    Verdict,
    WholeCheckpoint,
)
from tidegate.reading.checkpoint_rows import Figures, checkpoint_fields, dag_run_of, subtask_of
from tidegate.reading.history import counted, figures_of, neighbours, sources_of
from tidegate.reading.parts import tasks
from tidegate.reading.standing import standing_of


def checkpoint_details(
    connection: Connection, pipeline_id: str, checkpoint_id: int, now: datetime
) -> CheckpointDetails | None:
    """See `Readings.checkpoint`."""
    wanted = checkpoints.select().where(
        checkpoints.c.pipeline_id == pipeline_id, checkpoints.c.checkpoint_id == checkpoint_id
    )
    row = connection.execute(wanted).mappings().first()
    if row is None:
        return None
    record = checkpoint_record(row)
    sources = sources_of(connection, pipeline_id)
    known_figures = figures_of(connection, pipeline_id, [checkpoint_id])
    around = neighbours(connection, pipeline_id, checkpoint_id)
    standing = standing_of(record, now)
    figures = counted(record, known_figures.get(checkpoint_id, Figures()), sources)
    fields = checkpoint_fields(record, figures, standing)
    return CheckpointDetails(
        **fields | {"tasks": {task.id: task for task in tasks(connection, record, sources)}},
        held=standing.held,
        advice=standing.advice,
        folded=row["folded"],
        dag_run=dag_run_of(record),
        phases=phases_of(record),
        verdicts=tuple(
            Verdict.model_validate(verdict) for verdict in reads.verdicts_of(connection, pipeline_id, checkpoint_id)
        ),
        failure=explain_failure(record),
        relations=_relations(record, reads.restores_of(connection, pipeline_id), around),
        now=now,
    )


def whole_checkpoint(
    record: CheckpointRecord, details: CheckpointDetails, subtasks: Mapping[SubtaskId, SubtaskRecord]
) -> WholeCheckpoint:
    """Add every subtask to a checkpoint."""
    of: dict[str, list[Subtask]] = {}
    for key in sorted(subtasks):
        of.setdefault(key.operator_id, []).append(subtask_of(record, subtasks[key]))
    tasks = {id_: TaskWithAll(**dict(task), subtasks=tuple(of.get(id_, ()))) for id_, task in details.tasks.items()}
    return WholeCheckpoint(**dict(details) | {"tasks": tasks})


def phases_of(record: CheckpointRecord) -> tuple[PhaseSpan, ...]:
    """Return the phases in the order in which they began. Each ends where the next one begins; the last one is
    open-ended unless no phase can follow it.
    """
    reached = (
        ("TRIGGERED", record.triggered_at),
        ("ACKNOWLEDGED", record.acknowledged_at),
        ("HELD", record.held_at),
        ("VALIDATED", record.validated_at),
        ("COMPLETED", record.completed_at),
        ("NOTIFIED", record.notified_at),
        ("FAILED", record.failed_at),
    )
    begun = [(phase, at) for phase, at in reached if at is not None]
    final = begun[-1][0] in ("NOTIFIED", "FAILED")
    ends = [at for _, at in begun[1:]] + [begun[-1][1] if final else None]
    return tuple(
        PhaseSpan(phase=phase, began_at=at, ended_at=end) for (phase, at), end in zip(begun, ends, strict=True)
    )


def _relations(
    record: CheckpointRecord, restores: Sequence[Restore], around: tuple[int | None, int | None]
) -> Relations:
    fork = Fork.parse(record.request_id)
    answers = [RestoreAt.model_validate(restore) for restore in restores]
    left_behind = [restore for restore in answers if restore.number == record.abandoned_by]
    before = [restore for restore in answers if restore.last_checkpoint_id == record.checkpoint_id - 1]
    return Relations(
        restored_by=tuple(restore for restore in answers if restore.checkpoint_id == record.checkpoint_id),
        abandoned_by=left_behind[0] if left_behind else None,
        follows_restore=before[-1] if before else None,
        forked_from=None if fork is None else fork.describe(),
        previous=around[0],
        next=around[1],
    )


def explain_failure(record: CheckpointRecord) -> Failure | None:
    """Describe a failure; None if the checkpoint has not failed."""
    if record.failure_reason is None:
        return None
    reason = record.failure_reason
    return Failure(
        reason=reason.name,
        sentence=f"{reason.sentence} {UNHARMED}",
        message=record.failure_message or reason.sentence,
        advice=ADVICE[reason],
    )
