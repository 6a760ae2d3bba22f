"""The events of a pipeline for receivers outside, and the times of their deliveries.

Events are rows. They are recorded in the transaction that makes them true, and delivered afterwards to every notifier
at least once, by the next process. Listeners (protocol.md section 10) are called by the process in which the event
happens, or never.
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
    VERDICT_HELD = "VERDICT_HELD"  # a checkpoint waits for manual approval
    PIPELINE_FAILED = "PIPELINE_FAILED"
    PIPELINE_STALE = "PIPELINE_STALE"
    PIPELINE_FRESH = "PIPELINE_FRESH"  # was stale, and is not any more


#: Events that need attention, or that end such a state.
ALERTS = frozenset(EventKind) - {EventKind.CHECKPOINT_COMPLETED}

#: Events that each checkpoint has, and that only one notifier takes. They are deleted once they are delivered.
FORGOTTEN_ONCE_DELIVERED = frozenset({EventKind.CHECKPOINT_COMPLETED})

#: An event that no notifier took for this long is deleted.
KEPT_FOR = timedelta(days=7)
#: A delivery belongs for this long to the process that began it. Then it counts as failed.
LEASE = timedelta(minutes=1)
MAX_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a pipeline. `number` grows within the pipeline. `reason` is a `FailureReason`'s name."""

    pipeline_id: str
    number: int
    kind: EventKind
    at: datetime
    message: str
    checkpoint_id: int | None = None
    reason: str | None = None

    @property
    def event_id(self) -> str:
        """The id of the event, equal in all of its deliveries."""
        return f"{self.pipeline_id}/{self.number}"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """An event that one notifier has not taken yet. It is tried again at `again_at`. `refused`: the notifier was
    reached, and refused the event."""

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
    EventKind.VERDICT_HELD: "A verdict is held: the checkpoint waits until it is approved or rejected.",
    EventKind.PIPELINE_FAILED: "The pipeline has failed and takes no checkpoints until it is resumed.",
    EventKind.PIPELINE_STALE: "The pipeline has completed no checkpoint for too long.",
    EventKind.PIPELINE_FRESH: "The pipeline is not stale any more.",
}


def sentence(event: Event) -> str:
    """Return a general sentence on the event, whose own message has the particulars. Performs no I/O."""
    return _SENTENCES[event.kind] if event.reason is None else FailureReason[event.reason].sentence


def choose_next(undelivered: Sequence[Undelivered], now: datetime) -> Undelivered | None:
    """Choose the event to deliver now, oldest first; None for none. Performs no I/O.

    Nothing is delivered while another process delivers, or while the notifier was unreachable a moment ago: a notifier
    that is down costs one timeout now and then, not one for each event. An event that was refused holds up no other.
    """
    if any(each.waits(now) and not each.refused for each in undelivered):
        return None
    return next((each for each in undelivered if not each.waits(now)), None)


def next_try(attempts: int, now: datetime) -> datetime:
    """Return the time of the next try, if attempt number `attempts` begins now and never ends. Performs no I/O."""
    return now + _pause(attempts)


def _pause(attempts: int) -> timedelta:
    return min(LEASE * (1 << min(attempts - 1, 20)), MAX_PAUSE)
