"""The lineage of a checkpoint, as a backend gets it, against the schemas that OpenLineage publishes."""

import json
import logging
import os
import socket
from pathlib import Path

import jsonschema
import pytest
from desks import Desk
from receivers import receiving
from records import at, completed
from referencing import Registry, Resource
from worlds import CapturingRegion, Judge, ManualClock, MemorySink, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.aggregates import count
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.expectations import expect, suite
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import SourceContext
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.paths import directory, write_prefix
from tidegate.protocol.facts.records import (
    Acknowledgement,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.schema.ddl import columns_of
from tidegate.reporting.lineage import MOST_FILES, Lineage, dataset_of, run_event, run_id
from tidegate.reporting.openlineage import OpenLineage
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage

PUBLISHED = [json.loads(path.read_text()) for path in (Path(__file__).parent / "openlineage").glob("*.json")]
BY_ID = {document["$id"]: document for document in PUBLISHED}
REGISTRY = Registry().with_resources([(id_, Resource.from_contents(each)) for id_, each in BY_ID.items()])


@pytest.fixture(autouse=True)
def environment():
    """As it was: the client writes into it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def backend():
    with receiving() as backend:
        backend.answer = lambda request: 201
        os.environ["OPENLINEAGE_URL"] = backend.url
        os.environ["OPENLINEAGE_API_KEY"] = "very secret"
        yield backend


def validate(event):
    """The event, and every facet by the schema that it names: one that is not vendored here is an error."""
    run = {"$ref": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(run, registry=REGISTRY, format_checker=checker).validate(event)
    found = list(facets(event))
    for facet in found:
        jsonschema.Draft202012Validator({"$ref": facet["_schemaURL"]}, registry=REGISTRY).validate(facet)
    return found


def facets(part):
    if isinstance(part, dict):
        if "_schemaURL" in part:
            yield part
        for each in part.values():
            yield from facets(each)
    if isinstance(part, list):
        for each in part:
            yield from facets(each)


class Shop(Desk):
    """A file source and a table, without Spark: files are really listed, nothing is computed."""

    def __init__(self, store, home, *notifiers):
        self.home = home
        (home / "landing").mkdir()
        self.pipeline = Pipeline("shop")
        orders = self.pipeline.source("orders", FileSource(str(home / "landing"), schema="k bigint, note string"))
        orders.key_by("k").aggregate("counts", n=count()).sink(
            "table",
            ParquetSink(str(home / "table"), mode="latest"),
            expect=suite("s", expect("column_to_exist", column="k")),
        )
        self.graph, self.store, self.clock = compile_graph(self.pipeline), store, ManualClock()
        self.storage = ArrowCheckpointStorage(str(home / "checkpoints"))
        self.restored = None
        told = OpenLineage(self.graph, store, self.storage)
        self.coordinator = CheckpointCoordinator(self.pipeline, store, self.storage, self.clock, notifiers=[told])

    def deliver(self, name, rows="k,note\n1,a\n"):
        (self.home / "landing" / name).write_text(rows)

    def take(self, request):
        checkpoint_id = self.ask(request).checkpoint_id

        def report(task):
            prefix = write_prefix(directory("shop", checkpoint_id), SubtaskId("orders", 0), 1)
            context = SourceContext(self.storage, checkpoint_id, f"{prefix}-x")
            source = self.graph.sources[0].source
            acks = []
            for key, attempt in task.attempts.items():
                snapshot = Snapshot()
                if key.operator_id == "orders":
                    _, snapshot = source.poll(0, self.restored, context)
                    self.restored = snapshot
                acks.append(Acknowledgement(key, attempt, snapshot))
            self.coordinator.record_acknowledgements(checkpoint_id, acks)

        self.coordinator.snapshot(checkpoint_id, CapturingRegion(report))
        self.coordinator.validate(checkpoint_id, Judged())
        return self.coordinator.finalize(checkpoint_id)


class Judged(Judge):
    def __init__(self):
        super().__init__(True)

    def validate(self, checkpoint, subtasks, settled=()):
        result = {"type": "expect_column_to_exist", "kwargs": {"column": "k"}, "success": True, "observed": 3}
        return [Verdict(Target.parse("sink:table"), "s", True, 1, 0, (result,))]


def test_a_backend_hears_of_a_checkpoint_what_it_read_wrote_and_found(store, tmp_path, backend):
    shop = Shop(store, tmp_path)
    shop.deliver("a.csv")
    shop.deliver("b.csv", "k,note\n")
    record = shop.take("r1")
    (request,) = backend.requests
    assert (request.path, request.headers["Authorization"]) == ("/api/v1/lineage", "Bearer very secret")
    event = json.loads(request.body)
    names = {facet["_schemaURL"].rpartition("/")[2] for facet in validate(event)}
    assert {"DataQualityAssertionsDatasetFacet", "SchemaDatasetFacet", "DatasetVersionDatasetFacet"} <= names
    assert (event["eventType"], event["eventTime"]) == ("COMPLETE", record.completed_at.isoformat())
    assert event["run"]["runId"] == run_id("default", "shop", 1)
    assert (event["job"]["namespace"], event["job"]["name"]) == ("default", "shop")
    (source,) = event["inputs"]
    assert (source["namespace"], source["name"]) == ("file", f"{tmp_path}/landing")
    assert [(each["name"], each["type"]) for each in source["facets"]["schema"]["fields"]] == [
        ("k", "bigint"),
        ("note", "string"),
    ]
    assert source["inputFacets"]["subset"]["inputCondition"] == {"type": "location", "locations": ["a.csv", "b.csv"]}
    assert source["inputFacets"]["inputStatistics"]["fileCount"] == 2
    assert source["inputFacets"]["inputStatistics"]["size"] == 18
    (table,) = event["outputs"]
    assert (table["namespace"], table["name"]) == ("file", f"{tmp_path}/table")
    assert table["facets"]["version"]["datasetVersion"] == "1"
    (assertion,) = table["facets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["assertion"], assertion["success"], assertion["column"]) == ("expect_column_to_exist", True, "k")
    assert assertion["actual"] == "3"


def test_each_checkpoint_names_its_own_files(store, tmp_path, backend):
    shop = Shop(store, tmp_path)
    shop.deliver("a.csv")
    shop.take("r1")
    shop.deliver("b.csv")
    shop.coordinator.notify(1)
    shop.take("r2")
    shop.coordinator.notify(2)
    shop.take("r3")
    events = [json.loads(request.body) for request in backend.requests]
    read = [event["inputs"][0]["inputFacets"].get("subset", {}).get("inputCondition") for event in events]
    assert [condition and condition["locations"] for condition in read] == [["a.csv"], ["b.csv"], None]
    assert len({event["run"]["runId"] for event in events}) == 3


def test_a_backend_that_is_down_harms_no_checkpoint_and_hears_of_it_later(store, tmp_path, backend, caplog):
    shop = Shop(store, tmp_path)
    shop.deliver("a.csv")
    backend.answer = lambda request: 400
    with caplog.at_level(logging.DEBUG):
        assert shop.take("r1").status is Status.COMPLETED
    backend.answer = lambda request: 201
    shop.clock.advance(60)
    shop.coordinator.notify(1)
    shop.coordinator.reporting.deliver()
    shop.coordinator.reporting.deliver()
    first, second = (json.loads(request.body) for request in backend.requests)
    assert first == second
    assert "very secret" not in caplog.text


def test_one_that_is_gone_is_no_different(store, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        os.environ["OPENLINEAGE_URL"] = f"http://127.0.0.1:{closed.getsockname()[1]}"
        shop = Shop(store, tmp_path)
        assert shop.take("r1").status is Status.COMPLETED


def test_a_file_is_a_transport_too(store, tmp_path):
    os.environ["OPENLINEAGE__TRANSPORT__TYPE"] = "file"
    os.environ["OPENLINEAGE__TRANSPORT__LOG_FILE_PATH"] = str(tmp_path / "lineage.json")
    os.environ["OPENLINEAGE__TRANSPORT__APPEND"] = "true"
    shop = Shop(store, tmp_path)
    shop.take("r1")
    event = json.loads((tmp_path / "lineage.json").read_text())
    validate(event)
    assert event["job"]["name"] == "shop"


def test_a_run_has_one_id_however_often_and_by_whom_it_is_sent():
    assert run_id("prod", "p", 7) == run_id("prod", "p", 7)
    assert len({run_id("prod", "p", 7), run_id("prod", "p", 8), run_id("prod", "q", 7), run_id("test", "p", 7)}) == 4


# -- what it is made of


def lineage(**known):
    graph = compile_graph(small_pipeline(MemorySink()))
    default = {
        "namespace": "n",
        "version": "1",
        "record": completed(7, pipeline_id="p"),
        "subtasks": {},
        "verdicts": [],
        "sources": graph.sources,
        "sinks": [],
        "checks": [],
        "files": {},
    }
    return json.loads(_json(run_event(Lineage(**default | known))))


def _json(event):
    from openlineage.client.serde import Serde

    return Serde.to_json(event)


def test_offsets_are_the_part_that_a_source_without_files_has_read():
    positions = {
        key: SubtaskRecord(key, 1, at(1), Snapshot((), {"offset": 10 + key.subtask_index}))
        for key in (SubtaskId("src", 0), SubtaskId("src", 1))
    }
    event = lineage(subtasks=positions)
    validate(event)
    (source,) = event["inputs"]
    assert (source["namespace"], source["name"]) == ("tidegate://SplitSource", "src")
    assert source["inputFacets"]["subset"]["inputCondition"] == {
        "type": "partition",
        "partitions": [
            {"identifier": "0", "dimensions": {"offset": 10}},
            {"identifier": "1", "dimensions": {"offset": 11}},
        ],
    }


def test_very_many_files_are_only_counted():
    event = lineage(files={"src": {f"{number}.csv": 2 for number in range(MOST_FILES + 1)}})
    validate(event)
    assert event["inputs"][0]["inputFacets"].keys() == {"inputStatistics"}
    assert event["inputs"][0]["inputFacets"]["inputStatistics"]["fileCount"] == MOST_FILES + 1


def test_a_judgement_of_state_is_one_of_a_dataset_of_its_own():
    event = lineage(verdicts=[Verdict(Target.parse("state:op"), "s", True, 1, 0, ({"type": "t", "success": True},))])
    validate(event)
    (state,) = event["outputs"]
    assert (state["namespace"], state["name"]) == ("tidegate://state", "p/op")


def test_rows_that_failed_are_in_no_event():
    """A verdict that was overruled: what its rows held stays in the database."""
    row = {"type": "t", "success": False, "unexpected_samples": ["private"], "unexpected_rows": [{"name": "private"}]}
    event = lineage(verdicts=[Verdict(Target.parse("state:op"), "s", False, 1, 1, (row,))])
    validate(event)
    assert event["outputs"][0]["facets"]["dataQualityAssertions"]["assertions"][0]["success"] is False
    assert "private" not in json.dumps(event)


def test_what_names_itself_has_that_name():
    graph = compile_graph(small_pipeline(MemorySink()))
    named = {"src": ("kafka://broker:9092", "clicks"), "out-sink": ("kafka://broker:9092", "pages")}
    event = lineage(sources=graph.sources, sinks=graph.sinks, datasets=named)
    validate(event)
    places = [(each["namespace"], each["name"]) for each in (*event["inputs"], *event["outputs"])]
    assert places == list(named.values())


@pytest.mark.parametrize(
    ("place", "dataset"),
    [
        ("/data/in", ("file", "/data/in")),
        ("s3://bucket/a/b/", ("s3://bucket", "a/b")),
        ("s3://key:hidden@bucket/a", ("s3://bucket", "a")),
        ("hdfs://name:8020/a", ("hdfs://name:8020", "a")),
        ("gs://bucket", ("gs://bucket", "/")),
        (None, ("tidegate://X", "src")),
    ],
)
def test_a_place_is_named_as_openlineage_names_it_without_secrets(place, dataset):
    assert dataset_of({"type": "X", "path": place}, "src") == dataset


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("k bigint, n bigint", [("k", "bigint"), ("n", "bigint")]),
        ("k BIGINT NOT NULL, `a b` decimal(10,2)", [("k", "BIGINT"), ("a b", "decimal(10,2)")]),
        ("a: int, b struct<x:int,y:array<string>>", [("a", "int"), ("b", "struct<x:int,y:array<string>>")]),
        ("m map<string,int> COMMENT 'a, b'", [("m", "map<string,int>")]),
        ("", []),
        ("rubbish", []),
    ],
)
def test_columns_are_read_off_a_schema(ddl, columns):
    assert columns_of(ddl) == columns


def test_what_was_written_is_counted():
    staged = StateHandle("chk-7/0-1.parquet", HandleKind.STAGED, 3, 100, "0" * 64, 7)
    key = SubtaskId("out-sink", 0)
    sinks = compile_graph(small_pipeline(MemorySink())).sinks
    event = lineage(sinks=sinks, subtasks={key: SubtaskRecord(key, 1, at(1), Snapshot((staged,)))})
    validate(event)
    (table,) = event["outputs"]
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (3, 100, 1)
