"""The words and colours for the status of checkpoints, pipelines and verdicts, in one place. Pure.

A colour never carries a meaning alone: it stands next to its word.
"""

from dataclasses import dataclass

from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import ActorKind, AnswerStatus
from tidegate.reading.checkpoint_answers import Checkpoint, Hold
from tidegate.reading.pipeline_answers import Need, PipelineLine
from tidegate.reading.standing import Outlook, Standing
from tidegate.ui.formatting import moment


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its colour. `tone` is a class of the style sheet: good, bad, warn, busy, or empty."""

    text: str
    tone: str = ""


_TONES = {
    Outlook.GOOD: "good",
    Outlook.BUSY: "busy",
    Outlook.DECISION: "warn",
    Outlook.WRONG: "bad",
    Outlook.OVER: "",
}


def standing(standing_: Standing) -> Word:
    """Return a checkpoint's status."""
    return Word(standing_.text, _TONES[standing_.outlook])


KINDS = {
    CheckpointKind.CHECKPOINT: "Checkpoint",
    CheckpointKind.SAVEPOINT: "Savepoint",
    CheckpointKind.SYNC_SAVEPOINT: "Savepoint, then stop",
}


def kind_of(checkpoint: Checkpoint) -> str:
    """Return the kind of a savepoint."""
    if checkpoint.checkpoint_type == CheckpointKind.SYNC_SAVEPOINT and checkpoint.drain:
        return "Savepoint, then drained"
    return KINDS[CheckpointKind(checkpoint.checkpoint_type)]


def reason(name: str) -> str:
    """Return the reason that a checkpoint failed for, as a sentence."""
    return FailureReason[name].sentence


def verdict(success: bool | None, validated: bool = True) -> Word:
    if not validated:
        return Word("not validated")
    if success is None:
        return Word("no verdict", "warn")
    return Word("passed", "good") if success else Word("failed", "bad")


def answer(status: AnswerStatus) -> Word:
    return Word("done", "good") if status is AnswerStatus.DONE else Word("refused", "warn")


#: The origin of an action, by the kind of actor.
ACTORS = {ActorKind.AIRFLOW_USER: "in Airflow", ActorKind.CLI_USER: "by command", ActorKind.DAG_RUN: "DAG run"}

_PIPELINE_TONES = {"RUNNING": "good", "STOPPING": "busy", "FAILED": "bad", "SUSPENDED": "warn"}


def pipeline_status(status: str) -> Word:
    return Word(status, _PIPELINE_TONES.get(status, ""))


def need_of(line: PipelineLine) -> Word | None:
    """Return the attention that a pipeline needs; None if it needs none."""
    match line.need:
        case Need.DECISION:
            return Word(f"Checkpoint {_list(line.held)} waits for approval", "bad")
        case Need.RESUME:
            return Word("It has failed and takes no checkpoints until it is resumed", "bad")
        case Need.LOOK if line.overdue:
            return Word("A checkpoint is past its deadline and has not been ended yet", "bad")
        case Need.LOOK:
            times = "The latest checkpoint failed" if line.failures_in_a_row == 1 else "Its latest checkpoints failed"
            return Word(times, "bad")
        case Need.DELIVERY:
            return Word(f"Tables may not show checkpoint {line.latest_completed} yet", "warn")
    return None


def hold_sentence(hold: Hold, waits: bool) -> str:
    """Return a sentence about a checkpoint's hold and the decision on it."""
    hold_text = f"Held from {moment(hold.held_at)} UTC on for approval"
    if hold.decision is not None:
        comment = f": {hold.comment}" if hold.comment else "."
        return (
            f"{hold_text}. {hold.decision.capitalize()} by {hold.decided_by} at {moment(hold.decision_at)} UTC{comment}"
        )
    return f"{hold_text}, at most until {moment(hold.until_at)} UTC. " + (
        "No decision was made yet." if waits else "It ended without a decision."
    )


def row_class(need: Need) -> str:
    if need <= Need.LOOK:
        return "needs"
    return "watch" if need is Need.DELIVERY else "calm"


def _list(ids: tuple[int, ...]) -> str:
    return ", ".join(str(one) for one in ids)


#: The label and the fill of each span of a checkpoint's time line.
SPANS = {
    Phase.TRIGGERED.value: ("Snapshot, until all have acknowledged", "span-work"),
    Phase.ACKNOWLEDGED.value: ("Validation", "span-work"),
    "HELD": ("Held for approval", "span-wait"),
    Phase.VALIDATED.value: ("Finalize, until the commit point", "span-work"),
    Status.COMPLETED.value: ("Notify, until the sinks show it", "span-good"),
    "NOTIFIED": ("Notified", "span-good"),
    Status.FAILED.value: ("Failed", "span-bad"),
}

FIGURES = {
    "end_to_end_duration": ("End to end", "duration"),
    "checkpointed_size": ("Checkpointed size", "size"),
    "state_size": ("Full size", "size"),
    "processed_data": ("Processed in flight", "size"),
    "persisted_data": ("Persisted in flight", "size"),
    "rows_in": ("Rows in", "number"),
    "rows_out": ("Rows out", "number"),
    "alignment_duration": ("Alignment", "duration"),
    "start_delay": ("Start delay", "duration"),
    "sync_duration": ("Sync", "duration"),
    "async_duration": ("Async", "duration"),
}
