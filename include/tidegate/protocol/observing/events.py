"""What happens to a pipeline that somebody outside should hear of, and when each notifier is next told.

Events are rows: recorded in the transaction that makes them true, delivered afterwards to every notifier at least once,
by whoever comes next. Listeners (protocol.md section 10) are told by the process in which it happens, or never.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.reasons import FailureReason


class EventKind(StrEnum):
    CHECKPOINT_COMPLETED = "CHECKPOINT_COMPLETED"
    CHECKPOINT_FAILED = "CHECKPOINT_FAILED"
    VERDICT_HELD = "VERDICT_HELD"  # a checkpoint waits for a person
    PIPELINE_FAILED = "PIPELINE_FAILED"
    PIPELINE_STALE = "PIPELINE_STALE"
    PIPELINE_FRESH = "PIPELINE_FRESH"  # was stale, and is not any more


#: Worth waking somebody for, or telling them that all is well again.
ALERTS = frozenset(EventKind) - {EventKind.CHECKPOINT_COMPLETED}

#: Of these there is one for each checkpoint, and one notifier: what is delivered is forgotten.
FORGOTTEN_ONCE_DELIVERED = frozenset({EventKind.CHECKPOINT_COMPLETED})

#: An event that no notifier took for this long is news to nobody.
KEPT_FOR = timedelta(days=7)
#: For this long, a notifier that was begun belongs to the process that began it. Then it is taken for failed.
LEASE = timedelta(minutes=1)
MAX_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Event:
    """`number` grows within a pipeline. `reason` is a `FailureReason`'s name."""

    pipeline_id: str
    number: int
    kind: EventKind
    at: datetime
    message: str
    checkpoint_id: int | None = None
    reason: str | None = None

    @property
    def event_id(self) -> str:
        """The same each time that the event is delivered."""
        return f"{self.pipeline_id}/{self.number}"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """An event that one notifier has not taken yet. It is tried again at `again_at`. `refused`: the notifier was
    reached, and did not want this one."""

    event: Event
    attempts: int = 0
    again_at: datetime | None = None
    refused: bool = False

    def waits(self, now: datetime) -> bool:
        if self.again_at is None:
            return False
        pause = _pause(self.attempts)
        return not is_over(self.again_at - pause, pause, now)


_SENTENCES = {
    EventKind.CHECKPOINT_COMPLETED: "The checkpoint has completed.",
    EventKind.CHECKPOINT_FAILED: "The checkpoint failed.",
    EventKind.VERDICT_HELD: "A verdict is held: the checkpoint waits until somebody approves or rejects it.",
    EventKind.PIPELINE_FAILED: "The pipeline has failed and takes no checkpoints until it is resumed.",
    EventKind.PIPELINE_STALE: "The pipeline has completed no checkpoint for too long.",
    EventKind.PIPELINE_FRESH: "The pipeline is not stale any more.",
}


def sentence(event: Event) -> str:
    """What happened, in general; the event's own message has the particulars. Performs no I/O."""
    return _SENTENCES[event.kind] if event.reason is None else FailureReason[event.reason].sentence


def choose_next(undelivered: Sequence[Undelivered], now: datetime) -> Undelivered | None:
    """What to deliver now, oldest first; None for nothing. Performs no I/O.

    While another process is delivering, or the notifier could not be reached a moment ago, nothing is: what is down
    costs one timeout in a while, not one an event. An event that was refused holds up no other.
    """
    if any(each.waits(now) and not each.refused for each in undelivered):
        return None
    return next((each for each in undelivered if not each.waits(now)), None)


def next_try(attempts: int, now: datetime) -> datetime:
    """When an event is tried again whose attempt number `attempts` begins now and never ends. Performs no I/O."""
    return now + _pause(attempts)


def _pause(attempts: int) -> timedelta:
    return min(LEASE * (1 << min(attempts - 1, 20)), MAX_PAUSE)
