"""Windows and event times as they are declared: what fits, what is refused, and which window ends when."""

from datetime import timedelta
from typing import Any

import pytest
from cases import for_each
from worlds import MemorySink, SplitSource

from tidegate import Pipeline, count, max_, session_window, window
from tidegate.coordination.steps.finalize import described
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration


class Orders(SplitSource):
    schema = "city string, amount int, at timestamp, day date, window_end timestamp"


def pipeline_of(event_time: str | None = "at", **source: Any) -> tuple[Pipeline, Any]:
    pipeline = Pipeline("orders")
    return pipeline, pipeline.source("orders", Orders(), event_time=event_time, **source)


def compiled(of: Any, event_time: str | None = "at", **source: Any) -> Graph:
    pipeline, orders = pipeline_of(event_time, **source)
    of(orders).sink("out", MemorySink())
    return compile_graph(pipeline)


def test_columns_of_windows_and_of_late_rows_are_known() -> None:
    def both(orders: Any) -> Any:
        hourly = orders.key_by("city").aggregate("hourly", window("at", "1 hour"), n=count())
        late = hourly.late.key_by("amount").aggregate("late_ones", n=count())
        late.sink("late", MemorySink())
        return hourly.key_by("city").aggregate("daily", window("window_start", "1 d"), n=max_("n"))

    graph = compiled(both, delay="10 min")
    assert graph.watched == {"orders", "hourly", "daily"}
    assert graph.reads_late("hourly")
    assert not graph.reads_late("daily")
    (hourly, *_) = (vertex for vertex in graph.keyed if vertex.name == "hourly")
    assert hourly.state_key == ("city", "window_start", "window_end")


REFUSED: dict[str, tuple[Any, str]] = {
    "a column that is not there": (
        lambda o: o.key_by("city").aggregate("n", window("when", "1 h"), n=count()),
        "window of operator 'n' of pipeline 'orders' names a column 'when', which 'orders' does not have",
    ),
    "no window": (lambda o: o.key_by("city").aggregate("n", "1 hour", n=count()), "'1 hour', which is not a window"),
    "a name that a bound has": (
        lambda o: o.key_by("city").aggregate("n", window("at", "1 h"), window_start=count()),
        "aggregates also name window_start",
    ),
    "a column that a bound has": (
        lambda o: o.key_by("city").aggregate("n", window("at", "1 h"), n=max_("window_end")),
        "aggregates also name window_end",
    ),
    "a key that a bound has": (
        lambda o: o.key_by("window_end").aggregate("n", window("at", "1 h"), n=count()),
        "aggregates also name window_end",
    ),
    "late rows without windows": (
        lambda o: o.key_by("city").aggregate("n", n=count()).late,
        "sink 'out' of pipeline 'orders' reads the late rows of 'n', which has no windows",
    ),
    "late rows of a source": (lambda o: o.late, "reads the late rows of 'orders', which has no windows"),
    "a ttl": (
        lambda o: o.key_by("city").aggregate("n", window("at", "1 h"), ttl="1 d", n=count()),
        "has windows and a ttl",
    ),
    "no aggregate": (lambda o: o.key_by("city").aggregate("n", window("at", "1 h")), "declares no aggregate"),
}


@for_each(("of", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(of: Any, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        compiled(of)


def test_windows_need_a_watermark_and_an_input_without_one_is_enough() -> None:
    def windowed(orders: Any) -> Any:
        return orders.transform(lambda df: df).key_by().aggregate("n", window("at", "1 h"), n=count())

    with pytest.raises(
        PipelineDefinitionError, match=r"'n' .* 'orders' that it reads has no watermark.*event_time='at'"
    ):
        compiled(windowed, event_time=None)
    compiled(windowed)


@for_each(
    ("event_time", "delay", "message"),
    [
        ("when", None, "event_time of source 'orders' .* is 'when', which it does not have"),
        ("amount", None, "'amount', which is int. It must be a timestamp or a date"),
        (None, "1 h", "delay='1 h' and no event_time"),
        ("at", timedelta(seconds=-1), "must not be negative"),
    ],
)
def test_an_event_time_must_be_one(event_time: str | None, delay: Any, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        compiled(lambda orders: orders, event_time, delay=delay)


@for_each(
    ("size", "slide", "message"),
    [
        ("0 s", None, "must be longer than 0 s"),
        ("1 h", "2 h", "must begin when it ends or earlier"),
        ("1 h", "0 s", "must begin when it ends or earlier"),
        ("1 d", "1 s", "belong to 86400 windows"),
        ("1 fortnight", None, "is not a duration"),
        ("1 week", None, "time_zone='UTC', or another one. Or give days, such as '7 d'"),
        ("4 d", "2 weeks", "has '2 weeks' and no time_zone"),
    ],
)
def test_a_window_that_cannot_be_is_refused(size: str, slide: str | None, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        window("at", size, slide)


def test_windows_are_told_as_they_were_declared() -> None:
    """A plan compares these texts with those that a checkpoint has recorded."""
    declared = {
        "1 h of 'at'": window("at", "60 min"),
        "1 h of 'at', every 15 min": window("at", "1 hour", slide="15 min"),
        "1 d of 'at', in Europe/Berlin": window("at", "1 day", time_zone="Europe/Berlin"),
        "7 d of 'at', every 1 d, in UTC": window("at", "1 week", slide="1 day", time_zone="UTC"),
        "12 months of 'at', in UTC": window("at", "1 year"),
        "sessions of 'at' with a gap of 30 min": session_window("at", gap="30 min"),
    }
    for text, one in declared.items():
        assert str(one) == text
        graph = compiled(lambda o, one=one: o.key_by("city").aggregate("n", one, n=count()))
        assert described(graph)["n"] == {"inputs": ["orders"], "window": text}


@for_each("gap", ["0 s", "40000 d", timedelta(seconds=-1)])
def test_a_gap_that_cannot_be_is_refused(gap: Any) -> None:
    with pytest.raises(PipelineDefinitionError, match="longer than 0 s, and 100 years at most"):
        session_window("at", gap)


def test_a_session_may_end_whenever_the_watermark_moves() -> None:
    one = session_window("at", gap="30 min")
    ends = [one.has_end_in(*each) for each in ((None, None), (None, 5), (5, 5), (5, 6), (5, None))]
    assert ends == [False, True, False, True, False]
    graph = compiled(lambda o: o.key_by("city").aggregate("n", one, n=count()))
    (vertex,) = graph.keyed
    assert (vertex.has_sessions, vertex.state_key) == (True, ("city", "window_start", "window_end"))


def test_durations_may_be_spelt_as_spark_has_them() -> None:
    assert duration("1 hour 30 minutes") == duration("1 h 30 min") == duration("90 minutes")
    assert duration("2 days 1 second") == timedelta(days=2, seconds=1)


@for_each(
    ("after", "until", "ends"),
    [
        (None, None, False),
        (None, 0, True),
        (59, 60, True),
        (60, 61, False),
        (60, 119, False),
        (60, 120, True),
        (61, 61, False),
    ],
)
def test_a_window_ends_when_the_watermark_is_at_its_end(after: int | None, until: int | None, ends: bool) -> None:
    one = window("at", timedelta(microseconds=60))
    assert one.has_end_in(after, until) is ends


def test_overlapping_windows_end_at_each_slide() -> None:
    one = window("at", timedelta(microseconds=100), timedelta(microseconds=30))  # ends at 10, 40, 70, …
    assert one.overlapping == 4
    assert [one.has_end_in(at, at + 1) for at in (8, 9, 10, 38, 39, 69)] == [False, True, False, False, True, True]
