"""Windows that rows correct after they have left: what may follow them, and what is refused."""

from typing import Any

import pytest
from cases import for_each
from worlds import MemorySink, SplitSource

from tidegate import ParquetSink, Pipeline, PostgresSink, count, session_window, window
from tidegate.coordination.steps.finalize import described
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError

HOUR, VISIT = window("at", "1 h"), session_window("at", gap="30 min")
KEY = ["city", "window_start", "window_end"]


class Orders(SplitSource):
    schema = "city string, amount int, at timestamp"


def compiled(windows: Any, follow: Any = None, **declared: Any) -> Graph:
    pipeline = Pipeline("orders")
    orders = pipeline.source("orders", Orders(), event_time="at")
    counted = orders.key_by("city").aggregate("counted", windows, n=count(), **declared)
    if follow is None:
        counted.sink("out", PostgresSink("counted", mode="upsert", key=KEY))
    else:
        follow(counted)
    return compile_graph(pipeline)


def appended(stream: Any) -> None:
    stream.sink("out", MemorySink())


def test_corrected_windows_go_to_sinks_that_upsert_and_versions_anywhere() -> None:
    for windows in (HOUR, VISIT):
        graph = compiled(windows, allowed_lateness="2 d")
        (vertex,) = graph.keyed
        assert (vertex.updates, vertex.withdraws) == (True, windows is VISIT)
        assert graph.outputs["counted"].endswith("_delete") == vertex.withdraws
        recorded = described(graph)["counted"]
        assert (recorded["allowed_lateness"], recorded["emit"]) == ("2 d", "updates")
    (vertex,) = compiled(HOUR, appended, allowed_lateness="2 d", emit="versions").keyed
    assert [name for name, _ in vertex.aggregates] == ["n", "window_version"]
    assert not vertex.updates

    def late_and_derived(stream: Any) -> None:
        stream.late.sink("late", MemorySink())
        stream.transform(lambda df: df).sink("out", PostgresSink("counted", mode="upsert", key=["id"]))

    compiled(HOUR, late_and_derived, allowed_lateness="2 d")


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a sink that appends": (
        HOUR, appended, {"allowed_lateness": "2 d"},
        "sink 'out' .* appends. 'counted' emits a window again .* mode='upsert' .* the key city, window_start, "
        "window_end; add emit='versions'",
    ),
    "a sink of current rows": (
        HOUR, lambda s: s.sink("out", ParquetSink("there", mode="latest")), {"allowed_lateness": "2 d"},
        "'out' .* shows the rows of the state. 'counted' emits a window again",
    ),
    "an operator": (
        HOUR, lambda s: appended(s.key_by("city").aggregate("more", n=count())), {"allowed_lateness": "2 d"},
        "operator 'more' .* would take a window several times",
    ),
    "a step": (
        HOUR, lambda s: appended(s.transform(lambda df: df, deterministic=False, name="drawn")),
        {"allowed_lateness": "2 d"}, "step 'drawn' .* would take a window several times",
    ),
    "another key": (
        HOUR, lambda s: s.sink("out", PostgresSink("t", mode="upsert", key="city")), {"allowed_lateness": "2 d"},
        "has the key city, but 'counted' has one row for each city, window_start, window_end",
    ),
    "sessions behind a transform": (
        VISIT, lambda s: s.transform(lambda df: df).sink("out", PostgresSink("t", mode="upsert", key=KEY)),
        {"allowed_lateness": "2 d"}, "after a transform, and some of their rows have a true _delete",
    ),
    "sessions that are appended": (
        VISIT, appended, {"allowed_lateness": "2 d"}, "window_end; or leave allowed_lateness out",
    ),
    "versions of sessions": (
        VISIT, appended, {"allowed_lateness": "2 d", "emit": "versions"}, "has sessions and emit='versions'"
    ),
    "versions of what is emitted once": (HOUR, appended, {"emit": "versions"}, "and no allowed_lateness"),
    "another word": (HOUR, None, {"allowed_lateness": "2 d", "emit": "all"}, "Write 'updates'.* or 'versions'"),
    "no time": (HOUR, None, {"allowed_lateness": "0 s"}, "longer than 0 s"),
    "ever": (HOUR, None, {"allowed_lateness": "40000 d"}, "100 years at most"),
    "no duration": (HOUR, None, {"allowed_lateness": "soon"}, "'soon' is not a duration"),
    "no window": (None, None, {"allowed_lateness": "2 d"}, "allowed_lateness='2 d' and no window"),
    "an aggregate of that name": (HOUR, None, {"allowed_lateness": count()}, "the names of arguments"),
    "an aggregate called as the version": (
        HOUR, appended, {"allowed_lateness": "2 d", "emit": "versions", "window_version": count()},
        "aggregate called window_version",
    ),
}  # fmt: skip


@for_each(("windows", "follow", "declared", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_have_a_window_twice_is_refused(windows: Any, follow: Any, declared: Any, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        compiled(windows, follow, **declared)
