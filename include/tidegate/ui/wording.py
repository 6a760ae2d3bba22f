"""The words and colours for what checkpoints, pipelines and verdicts are, in one place. Pure.

A colour never says anything alone: it stands beside its word.
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
    """`tone` is a class of the style sheet: good, bad, warn, busy, or nothing."""

    text: str
    tone: str = ""


_TONES = {
    Outlook.GOOD: "good",
    Outlook.BUSY: "busy",
    Outlook.DECISION: "warn",
    Outlook.WRONG: "bad",
    Outlook.OVER: "",
}


def standing(known: Standing) -> Word:
    """A checkpoint's status."""
    return Word(known.text, _TONES[known.outlook])


KINDS = {
    CheckpointKind.CHECKPOINT: "Checkpoint",
    CheckpointKind.SAVEPOINT: "Savepoint",
    CheckpointKind.SYNC_SAVEPOINT: "Savepoint, then stop",
}


def kind_of(checkpoint: Checkpoint) -> str:
    """Of a savepoint."""
    if checkpoint.checkpoint_type == CheckpointKind.SYNC_SAVEPOINT and checkpoint.drain:
        return "Savepoint, then drained"
    return KINDS[CheckpointKind(checkpoint.checkpoint_type)]


def reason(name: str) -> str:
    """Why a checkpoint failed, as a sentence."""
    return FailureReason[name].sentence


def verdict(success: bool | None, judged: bool = True) -> Word:
    if not judged:
        return Word("not judged")
    if success is None:
        return Word("no verdict", "warn")
    return Word("passed", "good") if success else Word("failed", "bad")


def answer(status: AnswerStatus) -> Word:
    return Word("done", "good") if status is AnswerStatus.DONE else Word("refused", "warn")


#: How an actor came in.
ACTORS = {ActorKind.AIRFLOW_USER: "in Airflow", ActorKind.CLI_USER: "by command", ActorKind.DAG_RUN: "DAG run"}

_PIPELINE_TONES = {"RUNNING": "good", "STOPPING": "busy", "FAILED": "bad", "SUSPENDED": "warn"}


def pipeline_status(status: str) -> Word:
    return Word(status, _PIPELINE_TONES.get(status, ""))


def need_of(line: PipelineLine) -> Word | None:
    """What somebody has to do about a pipeline; None if nothing."""
    match line.need:
        case Need.DECISION:
            return Word(f"Checkpoint {_list(line.held)} waits for a decision", "bad")
        case Need.RESUME:
            return Word("It has failed and takes no checkpoints until it is resumed", "bad")
        case Need.LOOK if line.overdue:
            return Word("A checkpoint’s time is up, and nobody has ended it yet", "bad")
        case Need.LOOK:
            times = "The latest checkpoint failed" if line.failures_in_a_row == 1 else "Its latest checkpoints failed"
            return Word(times, "bad")
        case Need.DELIVERY:
            return Word(f"Tables may not show checkpoint {line.latest_completed} yet", "warn")
    return None


def hold_sentence(hold: Hold, waits: bool) -> str:
    """Whether a person has decided about a checkpoint, and how."""
    held = f"Held from {moment(hold.held_at)} UTC on for a person to decide"
    if hold.decision is not None:
        said = f": {hold.comment}" if hold.comment else "."
        return f"{held}. {hold.decision.capitalize()} by {hold.decided_by} at {moment(hold.decision_at)} UTC{said}"
    return f"{held}, at most until {moment(hold.until_at)} UTC. " + (
        "Nobody has decided yet." if waits else "It ended without a decision."
    )


def row_class(need: Need) -> str:
    if need <= Need.LOOK:
        return "needs"
    return "watch" if need is Need.DELIVERY else "calm"


def _list(ids: tuple[int, ...]) -> str:
    return ", ".join(str(one) for one in ids)


#: What happens in each span of a checkpoint's time line, and its fill.
SPANS = {
    Phase.TRIGGERED.value: ("Snapshot, until all have acknowledged", "span-work"),
    Phase.ACKNOWLEDGED.value: ("Validation", "span-work"),
    "HELD": ("Held for a decision", "span-wait"),
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
