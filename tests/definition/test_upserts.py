"""Which sinks are given how an operator's state changes, and which key they may have."""

import pytest
from worlds import SplitSource

from tidegate import Pipeline, PostgresSink, count
from tidegate.pipeline.derivations import recorded_sink
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError


class Orders(SplitSource):
    schema = "customer string, product string"


def upserted(key: str | list[str]) -> Pipeline:
    pipeline = Pipeline("shop")
    source = pipeline.source("orders", Orders())
    counts = source.key_by("customer").aggregate("counts", n=count())
    counts.sink("direct", PostgresSink("direct", mode="upsert", key=key))
    counts.sink("added", PostgresSink("added"))
    derived = counts.transform(lambda rows: rows)
    derived.sink("derived", PostgresSink("derived", mode="upsert", key="n"))  # which may be the key, renamed
    step = counts.transform(lambda rows: rows, deterministic=False, name="step")
    step.sink("behind", PostgresSink("behind", mode="upsert", key="n"))
    read = source.transform(lambda rows: rows)
    read.sink("read", PostgresSink("read", mode="upsert", key=["customer", "product"]))
    return pipeline


def test_only_a_sink_that_shows_state_hears_what_leaves_it() -> None:
    graph = compile_graph(upserted("customer"))
    assert graph.upserted == graph.showing_state == {"direct-sink", "derived-sink"}
    assert graph.restaged == frozenset()
    recorded = {each.name: recorded_sink(graph, each) for each in graph.sinks}
    assert {name for name, said in recorded.items() if "transforms" in said} == {"derived"}


def test_such_a_sink_has_the_key_of_the_operator() -> None:
    said = "sink 'direct' of pipeline 'shop' has the key n, but 'counts' has one row for each customer: rows would take"
    with pytest.raises(PipelineDefinitionError, match=said):
        compile_graph(upserted("n"))
    with pytest.raises(PipelineDefinitionError, match="has the key customer, n, but"):
        compile_graph(upserted(["customer", "n"]))
