"""Answers of the read model, made by hand."""

from collections.abc import Sequence

from records import T0

from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.protocol.observing.statistics import Counts, Summary
from tidegate.reading.checkpoint import explain_failure, phases_of
from tidegate.reading.checkpoint_answers import CheckpointPage, OperatorAt, Relations
from tidegate.reading.history_answers import SUMMARIZED, Figures, PipelineSummary
from tidegate.reading.standing import standing_of

_NONE = dict.fromkeys(SUMMARIZED, Summary(-1, -1, -1, -1, -1, -1, -1, -1))
NO_CHECKPOINTS = PipelineSummary(Counts(0, 0, 0, 0, 0), _NONE, {}, None, None, None, None)


def page_of(
    record: CheckpointRecord,
    operators: Sequence[OperatorAt] = (),
    verdicts: Sequence[Verdict] = (),
    figures: Figures | None = None,
) -> CheckpointPage:
    return CheckpointPage(
        record=record,
        figures=figures or Figures(),
        phases=phases_of(record),
        operators=tuple(operators),
        verdicts=tuple(verdicts),
        failure=explain_failure(record),
        relations=Relations(
            restored_by=(), abandoned_by=None, follows_restore=None, forked_from=None, previous=None, next=None
        ),
        dag_run=None,
        standing=standing_of(record),
        folded=False,
        now=T0,
    )
