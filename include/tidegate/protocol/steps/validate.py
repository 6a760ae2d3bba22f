"""The validate step: whether the staged data may be committed, and the permit for the commit.

`finalize` takes a `ValidatedCheckpoint`, and only `permit` makes one. So no code can commit without a verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.errors import ValidationFailedError
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.protocol.steps.hold import held_error, is_held
from tidegate.protocol.steps.snapshot import ended_error
from tidegate.protocol.steps.verdicts import is_met

_SEAL = object()


@dataclass(frozen=True, slots=True)
class ValidatedCheckpoint:
    """Proof, for one set of handles, that every expected subtask has acknowledged, and that every verdict is good or
    the checkpoint was approved manually."""

    record: CheckpointRecord
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("A ValidatedCheckpoint is made by tidegate.protocol.steps.validate.permit only.")


def needs_validation(record: CheckpointRecord) -> bool:
    """Whether the staged data still waits for its verdicts. False once they are recorded: the first verdicts stand.

    Raises `CheckpointNotInProgressError` if the checkpoint was aborted, `ValidationFailedError` if it is not fully
    acknowledged yet, `CheckpointHeldError` if it waits for manual approval. Performs no I/O.
    """
    if record.status is Status.FAILED:
        raise ended_error(record)
    if is_held(record):
        raise held_error(record)
    if record.phase is Phase.TRIGGERED:
        raise ValidationFailedError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} cannot be validated: "
            f"{record.num_acknowledged} of {record.num_subtasks} subtasks have acknowledged. Run the snapshot step "
            "first."
        )
    return record.status is Status.IN_PROGRESS and record.phase is Phase.ACKNOWLEDGED


def decide_rejection(record: CheckpointRecord, targets: Sequence[Target], verdicts: Sequence[Verdict]) -> str | None:
    """Return the reason why the checkpoint must be aborted, or None. A failed verdict, an error and a missing verdict
    all reject it. Performs no I/O."""
    complaints = find_complaints(targets, verdicts)
    if not complaints:
        return None
    return (
        f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} was stopped by validation. "
        + " ".join(complaints)
        + " Nothing became visible; offsets, state and tables are as before."
    )


def find_complaints(targets: Sequence[Target], verdicts: Sequence[Verdict]) -> list[str]:
    """Return a sentence for each target with a problem. Performs no I/O."""
    by_target = {verdict.target: verdict for verdict in verdicts}
    return [text for target in targets if (text := _complaint(target, by_target.get(target)))]


def _complaint(target: Target, verdict: Verdict | None) -> str | None:
    if verdict is None:
        return f"{target}: no verdict was given."
    if verdict.success is None:
        return f"{target}: the validation itself failed: {verdict.error}"
    if verdict.success:
        return None
    failed = [result for result in verdict.results if not is_met(result)]
    return (
        f"{target}: {verdict.failed} of {verdict.evaluated} expectations failed: "
        + "; ".join(_expectation(result) for result in failed)
        + "."
    )


def _expectation(result: object) -> str:
    if not isinstance(result, dict):
        return str(result)
    kwargs = result.get("kwargs") or {}
    column = kwargs.get("column")
    text = f"{result.get('type')}" + (f" on {column}" if column else "")
    if result.get("unexpected_count"):
        text += f", {result['unexpected_count']} unexpected, such as {list(result.get('unexpected_samples') or [])[:3]}"
    elif result.get("observed") is not None:
        text += f", observed {result['observed']}"
    return text


def permit(record: CheckpointRecord) -> ValidatedCheckpoint:
    """Return the permit to finalize, from a recorded checkpoint. Raises as `needs_validation` does, and
    `ValidationFailedError` if it was not validated or not approved."""
    if is_held(record):
        raise ValidationFailedError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} is held, and was not approved yet. "
            f"Nothing is committed without approval. {record.held_message}"
        )
    if needs_validation(record):
        raise ValidationFailedError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} has not been validated. Nothing is "
            "committed without verdicts. Run the validate step."
        )
    assert record.phase is Phase.VALIDATED or record.status in COMMITTED
    return ValidatedCheckpoint(record, _SEAL)
