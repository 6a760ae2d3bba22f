"""How far a pipeline is behind its sources: sums over splits, and when they are worth a write."""

from dataclasses import replace

from cases import for_each
from records import at

from tidegate.protocol.facts.records import Pending, SubtaskId
from tidegate.protocol.observing.lag import SourceLag, lag_of, needs_recording


def lag(pending: int, seconds: float, source: str = "src", unit: str = "files") -> SourceLag:
    return SourceLag(source, pending, unit, -1, at(seconds))


def test_splits_are_summed_up_by_source_as_of_the_earliest_poll() -> None:
    polls = {
        SubtaskId("b", 0): (Pending(1, "offsets"), at(1)),
        SubtaskId("a", 1): (Pending(2, "files", 20), at(2)),
        SubtaskId("a", 0): (Pending(3, "files", 30), at(5)),
    }
    assert lag_of(polls) == (SourceLag("a", 5, "files", 50, at(2)), SourceLag("b", 1, "offsets", -1, at(1)))
    polls[SubtaskId("a", 2)] = (Pending(1, "files"), at(6))
    assert [each.bytes for each in lag_of(polls)] == [-1, -1]


def test_what_has_a_name_in_a_source_keeps_its_own_figure_whatever_split_reads_it() -> None:
    polls = {
        SubtaskId("clicks", 0): (Pending(5, "rows", parts={"0": 4, "2": 1}), at(1)),
        SubtaskId("clicks", 1): (Pending(0, "rows", parts={"1": 0}), at(2)),
    }
    (found,) = lag_of(polls)
    assert (found.pending, found.parts) == (5, {"0": 4, "1": 0, "2": 1})


@for_each(
    ("recorded", "found", "needed"),
    [
        ([], [], False),
        ([lag(3, 0)], [], False),  # nothing was polled yet
        ([], [lag(0, 1)], True),
        ([lag(3, 0)], [lag(2, 0.9)], False),
        ([lag(3, 0)], [lag(2, 1)], True),
        ([lag(3, 0)], [lag(3, 29.9)], False),
        ([lag(3, 0)], [lag(3, 30)], True),
        ([lag(3, 0)], [lag(3, 0, source="other")], True),
        ([lag(3, 0), lag(1, 0, "other")], [lag(3, 0)], True),
        ([lag(3, 0)], [lag(3, 1, unit="offsets")], True),
        ([lag(3, 0)], [replace(lag(3, 1), parts={"0": 3})], True),
        ([lag(3, 100)], [lag(2, 99)], True),  # the clock was put back
    ],
)
def test_it_is_written_when_it_has_changed_and_not_often(
    recorded: list[SourceLag], found: list[SourceLag], needed: bool
) -> None:
    assert needs_recording(recorded, found) is needed
