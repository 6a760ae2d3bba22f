"""The standing of a checkpoint: its status in words, how it is to be taken, and the advice that goes with it. Pages,
API and commands show the decisions made here, and no others.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, Decision
from tidegate.protocol.steps.hold import is_approved, is_held
from tidegate.reading.advice import ADVICE


class Outlook(StrEnum):
    GOOD = "GOOD"  # completed
    BUSY = "BUSY"  # in progress, in time
    DECISION = "DECISION"  # waits for approval, which is possible now
    WRONG = "WRONG"  # failed by itself, or its deadline has passed
    OVER = "OVER"  # ended on purpose, or completed and no longer of use


@dataclass(frozen=True, slots=True)
class Standing:
    """A status in words. `text` is Flink's status, with a note in brackets. `advice` is None if nothing is to do."""

    text: str
    outlook: Outlook
    advice: str | None = None

    @property
    def held(self) -> bool:
        """Whether the checkpoint can be approved or rejected now."""
        return self.outlook is Outlook.DECISION


#: The note for a checkpoint that ended but did not fail by itself.
_ENDED = {
    FailureReason.VALIDATION_REJECTED: "rejected",
    FailureReason.HOLD_EXPIRED: "hold expired",
    FailureReason.CHECKPOINT_SUBSUMED: "superseded",
    FailureReason.DECLINED_SUBSUMED: "superseded",
    FailureReason.DECLINED_INPUT_END_OF_STREAM: "input ended",
    FailureReason.COORDINATOR_SUSPEND: "on purpose",
    FailureReason.COORDINATOR_SHUTDOWN: "pipeline cancelled",
    FailureReason.JOB_FAILOVER_REGION: "region restarted",
}


def standing_of(record: CheckpointRecord, now: datetime | None = None) -> Standing:
    """Return the standing of a checkpoint. `now` decides whether one in progress is overdue; one that has ended does
    not need it. Performs no I/O.
    """
    if record.failure_reason is not None:
        return _failed(record.failure_reason)
    if record.status is Status.IN_PROGRESS:
        return _in_progress(record, now is not None and now >= record.ends_at)
    later = [record.status.value.lower()] if record.status is not Status.COMPLETED else []
    later += ["left behind"] if record.abandoned_by is not None else []
    approved = ["approved"] if record.decision is Decision.APPROVED else []
    return Standing(_with("COMPLETED", approved + later), Outlook.OVER if later else Outlook.GOOD)


def _failed(reason: FailureReason) -> Standing:
    note = _ENDED.get(reason)
    return Standing(_with("FAILED", [note] if note else []), _outlook(reason), ADVICE[reason])


def _outlook(reason: FailureReason) -> Outlook:
    return Outlook.WRONG if reason.is_fault else Outlook.OVER


def _in_progress(record: CheckpointRecord, overdue: bool) -> Standing:
    name, until = record.pipeline_id, f"{record.ends_at:%Y-%m-%d %H:%M:%S} UTC"
    ends = f"The next process ends it: the next request, task `abort` of its DAG run, or `tidegate abort {name}`."
    if is_held(record):
        if overdue:
            sentence = f"No decision was made by {until}, and it can no longer be approved. {ends}"
            return Standing("HELD (expired)", Outlook.WRONG, f"{sentence} The next checkpoint takes the same data.")
        sentence = f"A failed verdict waits for approval: approve or reject it by {until}."
        return Standing("HELD", Outlook.DECISION, f"{sentence} Later checkpoints of the pipeline wait until then.")
    note = "approved" if is_approved(record) else record.phase.value.lower()
    if overdue:
        advice = f"Its deadline of {until} has passed. {ends}"
        return Standing(_with("IN_PROGRESS", [note, "overdue"]), Outlook.WRONG, advice)
    finish = f"`tidegate run {name}` completes it, unless a DAG run or a continuous run does."
    return Standing(_with("IN_PROGRESS", [note]), Outlook.BUSY, finish if is_approved(record) else None)


def _with(status: str, notes: list[str]) -> str:
    return f"{status} ({', '.join(notes)})" if notes else status
