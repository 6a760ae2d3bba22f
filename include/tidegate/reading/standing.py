"""How a checkpoint stands: its status in words, how that is to be taken, and what to do. Pages, API and commands show
what is decided here, and nothing else."""

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
    DECISION = "DECISION"  # waits for a person, who can decide now
    WRONG = "WRONG"  # failed by itself, or its time is up
    OVER = "OVER"  # ended on purpose, or completed and of no use any more


@dataclass(frozen=True, slots=True)
class Standing:
    """`text` is Flink's status, in brackets what people need to know of it. `advice` is None where nothing is to do."""

    text: str
    outlook: Outlook
    advice: str | None = None

    @property
    def held(self) -> bool:
        """Whether a person can approve or reject the checkpoint now."""
        return self.outlook is Outlook.DECISION


#: How a checkpoint ended that did not fail by itself.
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
    """`now` tells whether the time of a checkpoint in progress is up; it is not needed for one that has ended. Performs
    no I/O."""
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
            said = f"Nobody decided by {until}, and it can no longer be approved. {ends}"
            return Standing("HELD (expired)", Outlook.WRONG, f"{said} The next checkpoint takes the same data.")
        said = f"A verdict waits for a person: approve or reject it by {until}."
        return Standing("HELD", Outlook.DECISION, f"{said} Later checkpoints of the pipeline wait until then.")
    note = "approved" if is_approved(record) else record.phase.value.lower()
    if overdue:
        advice = f"It is past its deadline of {until}. {ends}"
        return Standing(_with("IN_PROGRESS", [note, "overdue"]), Outlook.WRONG, advice)
    finish = f"`tidegate run {name}` completes it, unless a DAG run or a continuous run does."
    return Standing(_with("IN_PROGRESS", [note]), Outlook.BUSY, finish if is_approved(record) else None)


def _with(status: str, notes: list[str]) -> str:
    return f"{status} ({', '.join(notes)})" if notes else status
