"""Watermarks: how they are combined, that they never go back, and how positions carry them."""

from cases import for_each

from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.steps.watermarks import (
    END_OF_TIME,
    EventTimes,
    ahead_of,
    event_time_of,
    gone_by,
    gone_of,
    is_of_operator,
    is_watermark_alone,
    lowest,
    raised,
    watermarks_of,
    with_event_time,
    with_watermarks,
)


@for_each(
    ("known", "expected"),
    [({}, None), ({"a": 3}, None), ({"a": 3, "b": 2}, 2), ({"a": END_OF_TIME, "b": 2}, 2), ({"b": 0, "a": 0}, 0)],
)
def test_an_operator_has_come_as_far_as_the_slowest_input(known: dict[str, int], expected: int | None) -> None:
    assert lowest(["a", "b"], known) == expected


def test_without_inputs_that_have_one_there_is_no_watermark() -> None:
    assert lowest([], {"a": 1}) is None


def test_a_watermark_never_goes_back() -> None:
    assert [raised(*pair) for pair in ((None, None), (None, 1), (5, 1), (1, 5), (5, None))] == [None, 1, 5, 5, 5]


def test_a_split_keeps_the_largest_event_time_it_has_read() -> None:
    first = with_event_time(Snapshot((), {"offset": 1}), None, EventTimes(7))
    assert first.position == {"offset": 1, "event_time": 7}
    assert event_time_of(with_event_time(Snapshot((), {"offset": 2}), first, EventTimes(3))) == 7
    assert event_time_of(with_event_time(Snapshot(), first, None)) == 7
    assert with_event_time(Snapshot((), {"offset": 1}), None, None).position == {"offset": 1}


def test_rows_that_are_ahead_move_no_watermark_and_count_for_the_segment_read_last() -> None:
    first = with_event_time(Snapshot((), {"offset": 1}), None, EventTimes(None, 3))
    assert (first.position, event_time_of(first), ahead_of(first)) == ({"offset": 1, "ahead": 3}, None, 3)
    second = with_event_time(Snapshot((), {"offset": 2}), first, EventTimes(5))
    assert (event_time_of(second), ahead_of(second)) == (5, 0)
    assert ahead_of(None) == 0


def test_positions_of_operators_are_told_from_those_of_sources() -> None:
    snapshot = with_watermarks(Snapshot((), {"in_flight": []}), {"a": 1}, 2)
    assert watermarks_of(snapshot) == ({"a": 1}, 2)
    assert watermarks_of(None) == ({}, 0)
    assert with_watermarks(Snapshot(), {}, 0) == Snapshot()
    assert snapshot.position is not None
    assert is_of_operator(snapshot.position)
    assert not is_watermark_alone(snapshot.position)
    assert is_watermark_alone({"watermarks": {}, "late": 0})
    assert is_watermark_alone({"watermarks": {}, "late": 0, "gone": 1})
    assert [gone_of(with_watermarks(Snapshot(), {"a": 9}, 0, gone)) for gone in (None, 4)] == [None, 4]
    assert not is_of_operator({"offset": 1, "event_time": 7})


@for_each(
    ("before", "watermark", "lateness", "gone"),
    [
        (None, None, 5, None),
        (None, 20, 0, 20),
        (None, 20, 5, 15),
        (20, 21, 5, 20),  # rows may be later from now on: what has gone before does not come back
        (15, 30, 0, 30),  # or not so late any more
        (15, None, 5, 15),
        (15, END_OF_TIME, 5, END_OF_TIME),
    ],
)
def test_windows_go_from_state_so_long_after_they_have_left(
    before: int | None, watermark: int | None, lateness: int, gone: int | None
) -> None:
    assert gone_by(before, watermark, lateness) == gone
