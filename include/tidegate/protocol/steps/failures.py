"""The decision whether failed checkpoints fail the whole pipeline (protocol.md section 8).

Only failures in a row count: those since the last success and since the pipeline was last resumed. Each checkpoint
counts once. No report names the subtask that a failure came from, so every failure is one of the whole job. `stopping`
decides on the failure of a savepoint to stop with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.text.sentences import reassured


@dataclass(frozen=True, slots=True)
class Tolerated:
    """The pipeline goes on."""

    count: int


@dataclass(frozen=True, slots=True)
class TooManyFailures:
    """The pipeline has failed. `message` lists the failures."""

    message: str


def decide_pipeline_failure(
    failed: Sequence[CheckpointRecord], tolerable: int | None, validation_failures_count: bool
) -> Tolerated | TooManyFailures:
    """Decide whether the pipeline fails. `failed` are the checkpoints that have failed since the last success and the
    last resume, oldest first. `tolerable` None tolerates everything.

    The number is compared even if the newest failure does not count. Performs no I/O.
    """
    counted = [record for record in failed if _counts(record, validation_failures_count)]
    if tolerable is None or len(counted) <= tolerable:
        return Tolerated(len(counted))
    listed = " ".join(f"Checkpoint {record.checkpoint_id}: {_cause(record)}" for record in counted)
    return TooManyFailures(
        f"Pipeline {counted[0].pipeline_id} has failed: {len(counted)} checkpoints failed in a row, and {tolerable} "
        f"are tolerated. {reassured(listed)} Fix the cause first."
    )


def _counts(record: CheckpointRecord, validation_failures_count: bool) -> bool:
    """Whether the failure counts. That of a savepoint never does, because the user has requested it."""
    if record.kind is not CheckpointKind.CHECKPOINT or record.failure_reason is None:
        return False
    if record.failure_reason in (FailureReason.VALIDATION_FAILED, FailureReason.HOLD_EXPIRED):
        return validation_failures_count
    return record.failure_reason.counts


def _cause(record: CheckpointRecord) -> str:
    assert record.failure_reason is not None
    return f"{record.failure_reason.name}, {(record.failure_message or record.failure_reason.sentence)[:300]}"
