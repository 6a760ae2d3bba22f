"""Mistakes in a pipeline's definition: each found without data, named, and told what to do about."""

import re

import pytest
from cases import for_each
from worlds import MemorySink, SplitSource

from tidegate import Pipeline, count, expect, max_, suite, sum_
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex
from tidegate.ports import SinkInput
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import SubtaskId


class Somewhere(MemorySink):
    def __init__(self, path="tables/x", input_=SinkInput.CHANGES):
        super().__init__()
        self.path = path
        self.input = input_

    def describe(self):
        return {"type": "Somewhere", "path": self.path}


class Landing(SplitSource):
    schema = "carrier string, delay int"
    quarantine = None

    def describe(self):
        return {"type": "Landing", "path": "landing/flights"}


@pytest.fixture
def pipeline():
    return Pipeline("delays", parallelism=2, max_parallelism=16)


def refused(pipeline, words):
    return pytest.raises(PipelineDefinitionError, match=re.escape(words))


def test_subtasks_are_the_splits_and_the_slices_of_operators_and_sinks(pipeline):
    flights = pipeline.source("flights", Landing(3))
    carriers = flights.key_by("carrier").aggregate("carriers", flights=count(), minutes=sum_("delay"))
    carriers.sink("carriers", Somewhere())
    graph = compile_graph(pipeline)
    assert graph.subtasks == tuple(
        SubtaskId(operator, index)
        for operator, parallelism in [("flights", 3), ("carriers", 2), ("carriers-sink", 2)]
        for index in range(parallelism)
    )


def test_operators_are_put_upstream_first_in_whatever_order_they_were_written(pipeline):
    second = KeyedVertex("second", (Stream(pipeline, "first"),), ("k",), aggregates=(("n", count()),))
    first = KeyedVertex("first", (Stream(pipeline, "src"),), ("k",), aggregates=(("n", count()),))
    pipeline.add(second)
    pipeline.add(first)
    pipeline.source("src", SplitSource())
    assert [vertex.name for vertex in compile_graph(pipeline).keyed] == ["first", "second"]


def test_a_step_that_is_not_deterministic_is_a_vertex_with_subtasks_of_its_own(pipeline):
    drawn = pipeline.source("src", SplitSource()).transform(str).transform(repr, deterministic=False, name="drawn")
    counts = drawn.transform(str).key_by("k").aggregate("counts", n=count())
    counts.transform(hash, deterministic=False, name="again").sink("out", Somewhere())
    drawn.sink("raw", Somewhere("tables/raw"))
    graph = compile_graph(pipeline)
    assert [vertex.name for vertex in graph.producers] == ["drawn", "counts", "again"]
    assert graph.producers[0].input.transforms == (str, repr)
    assert [(plan.operator_id, plan.parallelism) for plan in graph.plan][1:] == [
        *(("drawn", 2), ("counts", 2), ("again", 2)),
        *(("raw-sink", 2), ("out-sink", 2)),
    ]
    upstreams = {"drawn": ("src",), "counts": ("drawn",), "again": ("counts",)}
    assert graph.upstreams == upstreams | {"out-sink": ("again",), "raw-sink": ("drawn",)}


@pytest.mark.parametrize("marks", [{"deterministic": False}, {"name": "drawn"}, {"deterministic": True, "name": "x"}])
def test_a_transform_that_is_not_deterministic_has_a_name_and_others_have_none(pipeline, marks):
    stream = pipeline.source("src", SplitSource())
    with pytest.raises(
        PipelineDefinitionError, match="A transform after 'src' of pipeline 'delays' has deterministic="
    ):
        stream.transform(str, **marks)


def test_a_table_of_current_rows_cannot_follow_a_step(pipeline):
    drawn = pipeline.source("src", SplitSource()).transform(str, deterministic=False, name="drawn")
    drawn.sink("out", Somewhere(input_=SinkInput.CURRENT))
    with refused(pipeline, "must follow a keyed operator. Between the two there may be transforms that are row-wise"):
        compile_graph(pipeline)


def test_one_verdict_is_expected_of_everything_that_has_a_suite(pipeline):
    rows = suite("rows", expect("column_to_exist", column="k"))
    stream = pipeline.source("src", SplitSource())
    counts = stream.key_by("k").aggregate("counts", expect=rows, n=count())
    counts.sink("judged", Somewhere("tables/a"), expect=rows)
    counts.sink("unjudged", Somewhere("tables/b"))
    pipeline.check("agree", sinks=["judged", "unjudged"], expect=rows)(lambda a, b: a)
    assert [str(target) for target in compile_graph(pipeline).targets] == ["state:counts", "sink:judged", "check:agree"]


@for_each("name", ["", "Flights", "1st", "a b", "a/b", "..", "a" * 64, "é", "a-sink"])
def test_a_name_that_cannot_be_a_directory_is_refused(name):
    pipeline = Pipeline("p")
    pipeline.source(name, SplitSource())
    with refused(pipeline, f"{name!r} is not a legal source name"):
        compile_graph(pipeline)


def test_the_pipelines_own_name_is_checked_too():
    with refused(None, "'No' is not a legal pipeline name"):
        compile_graph(Pipeline("No"))


def test_two_vertices_cannot_share_a_name(pipeline):
    pipeline.source("flights", SplitSource()).key_by("k").aggregate("flights", n=count())
    with refused(pipeline, "has two vertices named 'flights'"):
        compile_graph(pipeline)


def test_a_sink_may_carry_its_operators_name(pipeline):
    counts = pipeline.source("src", SplitSource()).key_by("k").aggregate("counts", n=count())
    counts.sink("counts", Somewhere())
    assert compile_graph(pipeline).sinks[0].operator_id == "counts-sink"


def test_a_cycle_is_named(pipeline):
    pipeline.source("src", SplitSource())
    pipeline.add(KeyedVertex("a", (Stream(pipeline, "b"),), ("k",), aggregates=(("n", count()),)))
    pipeline.add(KeyedVertex("b", (Stream(pipeline, "a"),), ("k",), aggregates=(("n", count()),)))
    with pytest.raises(PipelineDefinitionError, match=r"has a cycle: (a -> b -> a|b -> a -> b)"):
        compile_graph(pipeline)


@pytest.mark.parametrize("path", ["landing/flights", "landing/flights/", "landing/flights/out"])
def test_a_sink_that_writes_where_a_source_reads_is_a_cycle(pipeline, path):
    pipeline.source("flights", Landing()).sink("copy", Somewhere(path))
    with refused(pipeline, "where source 'flights' reads"):
        compile_graph(pipeline)


def test_a_neighbouring_directory_is_no_cycle(pipeline):
    pipeline.source("flights", Landing()).sink("copy", Somewhere("landing/flights_copy"))
    compile_graph(pipeline)


def test_two_sinks_cannot_write_to_one_place(pipeline):
    stream = pipeline.source("src", SplitSource())
    stream.sink("one", Somewhere("tables/x"))
    stream.sink("other", Somewhere("tables/x/"))
    with refused(pipeline, "Sinks 'one' and 'other' of pipeline 'delays' both write to 'tables/x'"):
        compile_graph(pipeline)


def test_a_pipeline_without_a_source_is_refused(pipeline):
    with refused(pipeline, "has no source"):
        compile_graph(pipeline)


def test_a_stream_of_another_pipeline_is_refused(pipeline):
    other = Pipeline("other").source("src", SplitSource())
    pipeline.source("src", SplitSource())
    pipeline.add(SinkVertex("out", other, Somewhere()))
    with refused(pipeline, "reads a stream of another pipeline, 'other'"):
        compile_graph(pipeline)


def test_a_stream_of_nothing_is_refused(pipeline):
    pipeline.source("src", SplitSource())
    pipeline.add(SinkVertex("out", Stream(pipeline, "typo"), Somewhere()))
    with refused(pipeline, "reads 'typo', which is not a source, step or operator"):
        compile_graph(pipeline)


@pytest.mark.parametrize("key", [(), ("k", "k")])
def test_a_key_names_each_column_once(pipeline, key):
    pipeline.source("src", SplitSource()).key_by(*key).aggregate("counts", n=count())
    with refused(pipeline, "must name at least one column, and none twice"):
        compile_graph(pipeline)


def test_an_operator_without_aggregates_is_refused(pipeline):
    pipeline.source("src", SplitSource()).key_by("k").aggregate("counts")
    with refused(pipeline, "declares no aggregate"):
        compile_graph(pipeline)


@pytest.mark.parametrize("name", ["k", "_hash"])
def test_an_aggregate_cannot_take_a_key_or_reserved_name(pipeline, name):
    pipeline.source("src", SplitSource()).key_by("k").aggregate("counts", **{name: max_("v")})
    with refused(pipeline, f"cannot be called {name}"):
        compile_graph(pipeline)


def test_a_sink_of_current_rows_may_derive_columns_of_them(pipeline):
    counts = pipeline.source("src", SplitSource()).key_by("k").aggregate("counts", n=count())
    counts.transform(lambda df: df).sink("out", Somewhere(input_=SinkInput.CURRENT))
    assert compile_graph(pipeline).showing_state == {"out-sink"}


def test_a_sink_of_current_rows_cannot_follow_what_emits(pipeline):
    rows = pipeline.source("src", SplitSource())
    emitted = pipeline.keyed("once", inputs=[rows], key=["k"], state="k int", output="v int")(print)
    emitted.sink("out", Somewhere(input_=SinkInput.CURRENT))
    with refused(pipeline, "'once' emits rows, of which none takes the place of another. Let the sink append"):
        compile_graph(pipeline)


def test_an_output_without_a_column_is_refused(pipeline):
    rows = pipeline.source("src", SplitSource())
    pipeline.keyed("once", inputs=[rows], key=["k"], state="k int", output=" ")(print)
    with refused(pipeline, "The output of operator 'once' of pipeline 'delays' names no column"):
        compile_graph(pipeline)


def test_a_check_compares_sinks_that_exist(pipeline):
    pipeline.source("src", SplitSource())
    pipeline.check("agree", sinks=["nowhere"], expect=suite("s", expect("column_to_exist", column="k")))(lambda a: a)
    with refused(pipeline, "compares unknown sinks: nowhere"):
        compile_graph(pipeline)


@for_each(("parallelism", "max_parallelism"), [(0, 8), (9, 8), (1, 40000)])
def test_parallelism_must_fit_the_number_of_key_groups(parallelism, max_parallelism):
    with pytest.raises(PipelineDefinitionError, match="1 <= parallelism <= max_parallelism <= 32768"):
        Pipeline("p", parallelism=parallelism, max_parallelism=max_parallelism)


def test_an_empty_suite_is_refused():
    with pytest.raises(PipelineDefinitionError, match="would pass anything"):
        suite("s")


def test_a_source_that_cannot_say_whether_it_is_behind_never_is():
    assert not SourceVertex("src", SplitSource()).is_behind(0, None)


def test_a_pipeline_that_leaves_nothing_behind_is_refused(pipeline: Pipeline) -> None:
    pipeline.source("src", SplitSource()).transform(lambda df: df)
    with pytest.raises(PipelineDefinitionError, match="neither a sink nor an operator with state"):
        compile_graph(pipeline)


def test_what_was_renamed_is_known_by_both_names(pipeline):
    flights = pipeline.source("flights", Landing(1), previous="departures")
    flights.key_by("carrier").aggregate("delays", n=count(), previous="totals")
    graph = compile_graph(pipeline)
    assert graph.renamed == {"flights": "departures", "delays": "totals"}


@pytest.mark.parametrize("other", ["delays", "sums"], ids=["is called so", "says so too"])
def test_only_one_goes_on_from_what_was_there(pipeline, other):
    flights = pipeline.source("flights", Landing(1))
    flights.key_by("carrier").aggregate(other, n=count(), previous=None if other == "delays" else "delays")
    flights.key_by("carrier").aggregate("late", n=count(), previous="delays")
    with refused(pipeline, f"names 'delays' as its previous name, and so does or is called {other!r}"):
        compile_graph(pipeline)


def test_what_is_no_aggregate_is_refused(pipeline):
    pipeline.source("flights", Landing(1)).key_by("carrier").aggregate("delays", n=count(), minutes="dep_delay")
    with refused(pipeline, "declares minutes, which is not an aggregate such as count()"):
        compile_graph(pipeline)
