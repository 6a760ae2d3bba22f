"""When an event is delivered to whom: the rule alone."""

from datetime import timedelta

from cases import for_each
from records import at

from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import (
    LEASE,
    MAX_PAUSE,
    Event,
    EventKind,
    Undelivered,
    choose_next,
    next_try,
    sentence,
)


def event(number, reason=None):
    return Event("p", number, EventKind.CHECKPOINT_FAILED, at(0), "gone", 7, reason)


def waiting(number, seconds, refused=False):
    return Undelivered(event(number), 1, at(seconds), refused)


@for_each(
    ("undelivered", "chosen"),
    [
        ([], None),
        ([Undelivered(event(1)), Undelivered(event(2))], 1),
        ([waiting(1, 60)], None),  # another process delivers it, or it could not be reached a moment ago
        ([waiting(1, 60), Undelivered(event(2))], None),
        ([waiting(1, 10), Undelivered(event(2))], 1),  # its time has come
        ([waiting(1, 5), waiting(2, 60)], None),
        ([waiting(1, 60, refused=True), Undelivered(event(2))], 2),
        ([waiting(1, 60, refused=True), waiting(2, 60), Undelivered(event(3))], None),
        ([waiting(1, 10, refused=True)], 1),
    ],
)
def test_the_oldest_is_delivered_unless_its_notifier_is_busy_or_down(undelivered, chosen):
    found = choose_next(undelivered, at(10))
    assert (None if found is None else found.event.number) == chosen


def test_a_notifier_that_stays_down_is_asked_less_and_less_often():
    pauses = [next_try(attempt, at(0)) - at(0) for attempt in range(1, 100)]
    assert pauses[:3] == [LEASE, 2 * LEASE, 4 * LEASE]
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE == timedelta(hours=1)


def test_an_event_is_known_by_its_pipeline_and_number():
    assert event(12).event_id == "p/12"


@for_each("reason", list(FailureReason))
def test_a_failure_is_explained_by_its_reason(reason):
    assert sentence(event(1, reason.name)) == reason.sentence


@for_each("kind", list(EventKind))
def test_every_kind_has_a_sentence(kind):
    assert sentence(Event("p", 1, kind, at(0), "gone")).endswith(".")
