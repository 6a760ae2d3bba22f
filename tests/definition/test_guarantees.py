"""What a sink can give against what the pipeline promises: refused, or said aloud."""

import json
import logging

import pytest
from cases import for_each
from desks import Desk
from memory_store import MemoryCheckpointStore
from worlds import MemorySink, SplitSource

from tidegate import CheckpointConfig, Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.guarantees import guarantee_of, reservations
from tidegate.ports import DeliveryGuarantee, SinkCommit
from tidegate.protocol.facts.errors import PipelineDefinitionError

EXACTLY, AT_LEAST = DeliveryGuarantee


class Mailer(MemorySink):
    """Cannot take a letter back."""

    commits = SinkCommit.AT_LEAST_ONCE


def pipeline_with(sink, mode, declared):
    pipeline = Pipeline("orders", checkpoints=CheckpointConfig(mode=mode))
    pipeline.source("src", SplitSource()).sink("alerts", sink, guarantee=declared)
    return pipeline


@for_each(
    ("sink", "mode", "declared", "given"),
    [
        (MemorySink, EXACTLY, None, EXACTLY),
        (MemorySink, EXACTLY, "EXACTLY_ONCE", EXACTLY),
        (MemorySink, EXACTLY, "AT_LEAST_ONCE", EXACTLY),  # more than was asked for
        (Mailer, EXACTLY, "AT_LEAST_ONCE", AT_LEAST),
        (MemorySink, AT_LEAST, None, AT_LEAST),
        (MemorySink, AT_LEAST, AT_LEAST, AT_LEAST),
        (Mailer, AT_LEAST, None, AT_LEAST),
    ],
)
def test_what_is_accepted_and_what_the_sink_gives_there(sink, mode, declared, given):
    graph = compile_graph(pipeline_with(sink(), mode, declared))
    assert guarantee_of(graph.pipeline, graph.sink("alerts")) is given
    assert bool(reservations(graph.pipeline, graph.sinks)) == (given is AT_LEAST)


@for_each(
    ("sink", "mode", "declared", "words"),
    [
        (Mailer, EXACTLY, None, "sink 'alerts' of pipeline 'orders' is a Mailer, which can give AT_LEAST_ONCE only"),
        (Mailer, EXACTLY, None, "guarantee='AT_LEAST_ONCE'.*CheckpointConfig\\(mode='AT_LEAST_ONCE'\\)"),
        (Mailer, EXACTLY, "EXACTLY_ONCE", "can give AT_LEAST_ONCE only"),
        (MemorySink, AT_LEAST, "EXACTLY_ONCE", "is declared guarantee='EXACTLY_ONCE', but the pipeline has"),
        (MemorySink, EXACTLY, "AT_MOST_ONCE", "must be one of EXACTLY_ONCE, AT_LEAST_ONCE, not 'AT_MOST_ONCE'"),
    ],
)
def test_what_is_refused_and_what_to_do(sink, mode, declared, words):
    with pytest.raises(PipelineDefinitionError, match=words):
        compile_graph(pipeline_with(sink(), mode, declared))


def test_reservations_name_the_sinks_that_are_meant():
    pipeline = pipeline_with(Mailer(), EXACTLY, AT_LEAST)
    pipeline.source("more", SplitSource()).sink("table", MemorySink())
    assert [text[:50] for text in reservations(pipeline, compile_graph(pipeline).sinks)] == [
        "Sink alerts of pipeline orders is declared AT_LEAS"
    ]
    pipeline = pipeline_with(MemorySink(), AT_LEAST, None)
    (text,) = reservations(pipeline, compile_graph(pipeline).sinks)
    assert "may appear twice in its sinks (alerts)" in text


def test_reservations_are_said_when_a_checkpoint_starts_and_only_once(caplog):
    world = Desk(MemoryCheckpointStore(), mode="AT_LEAST_ONCE")
    with caplog.at_level(logging.WARNING, "tidegate"):
        world.ask("first")
        world.ask("second", wait=False)
        world.complete(1)
        world.ask("third")
    assert caplog.text.count("Pipeline p is AT_LEAST_ONCE") == 1


def test_what_holds_is_in_the_metadata_and_reported_with_what_was_delivered():
    world = Desk(MemoryCheckpointStore(), mode="AT_LEAST_ONCE")
    world.ask("first")
    world.complete(1)
    document = json.loads(world.storage.files["p/chk-1/_metadata"])
    (sink,) = [operator for operator in document["operators"] if operator["operator_id"] == "out-sink"]
    assert sink["definition"] == {
        "type": "MemorySink",
        "guarantee": "AT_LEAST_ONCE",
        "commits": "AFTER_THE_COMMIT",
        "inputs": ["op"],
    }
    assert document["options"] == world.pipeline.checkpoints.describe()
    assert [each.guarantee for each in world.coordinator.notify(1)] == [AT_LEAST]
