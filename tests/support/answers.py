"""Answers of the read model, made by hand."""

from collections.abc import Mapping, Sequence

from records import T0

from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord
from tidegate.protocol.facts.records import Verdict as RecordedVerdict
from tidegate.protocol.observing.statistics import Counts
from tidegate.reading.checkpoint import explain_failure, phases_of, whole_checkpoint
from tidegate.reading.checkpoint_answers import CheckpointDetails, Relations, Task, Verdict, WholeCheckpoint
from tidegate.reading.checkpoint_rows import Figures, checkpoint_fields
from tidegate.reading.history_answers import SUMMARIZED, CheckpointStatistics, Latest, PipelineStatus, Summary
from tidegate.reading.standing import standing_of

_NONE = dict.fromkeys(SUMMARIZED, Summary(**dict.fromkeys(Summary.model_fields, -1)))


def no_checkpoints(status: str = "CREATED", message: str | None = None) -> CheckpointStatistics:
    return CheckpointStatistics(
        pipeline=PipelineStatus(status=status, since=T0, message=message),
        counts=Counts(0, 0, 0, 0, 0),
        summary=_NONE,
        held=None,
        latest=Latest(completed=None, failed=None, savepoint=None, restored=None),
    )


def details_of(
    record: CheckpointRecord,
    tasks: Sequence[Task] = (),
    verdicts: Sequence[RecordedVerdict] = (),
    figures: Figures | None = None,
    subtasks: Mapping[SubtaskId, SubtaskRecord] | None = None,
) -> WholeCheckpoint:
    fields = checkpoint_fields(record, figures or Figures())
    found = CheckpointDetails(
        **fields | {"tasks": {task.id: task for task in tasks}},
        held=False,
        advice=standing_of(record).advice,
        folded=False,
        dag_run=None,
        phases=phases_of(record),
        verdicts=tuple(map(Verdict.model_validate, verdicts)),
        failure=explain_failure(record),
        relations=Relations(
            restored_by=(), abandoned_by=None, follows_restore=None, forked_from=None, previous=None, next=None
        ),
        now=T0,
    )
    return whole_checkpoint(record, found, subtasks or {})
