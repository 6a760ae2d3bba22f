"""What is declared of versions: their tables, and joins with them. No Spark."""

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import FileSource, ParquetSink, Pipeline, PostgresSink, count
from tidegate.pipeline.fingerprint import fingerprint
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.known_columns import columns_of_stream
from tidegate.pipeline.streams import Stream
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.recovery.identity import find_moved

CUSTOMERS = "customer string, name string"
ORDERS = "order_id bigint, customer string, at timestamp"


def declared(use: Callable[[Stream, Stream, Stream], Any]) -> Pipeline:
    """`use` is given orders, customers that replace one another, and customers that come as rows."""
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", FileSource("orders", schema=ORDERS))
    source = FileSource("dim.csv", schema=CUSTOMERS, mode="snapshot", key=["customer"])
    rows = pipeline.source("rows", FileSource("rows", schema=CUSTOMERS))
    use(orders, pipeline.source("customers", source), rows)
    return pipeline


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "a table of rows": (
        lambda o, c, r: r.current("t"),
        "table 't' of pipeline 'shop' reads 'rows', whose rows do not replace one another. It needs a source of",
    ),
    "a history of rows": (lambda o, c, r: r.history("t"), "history 't' of pipeline 'shop' reads 'rows'"),
    "a table that is appended to": (
        lambda o, c, r: c.current("t").sink("s", ParquetSink("t")),
        "sink 's' of pipeline 'shop' appends, and rows of 't' replace one another and are deleted",
    ),
    "a history that is appended to": (
        lambda o, c, r: c.history("t").sink("s", ParquetSink("t")),
        "appends, and rows of 't' replace one another",
    ),
    "an updated join that is appended": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], row_key=["order_id"]).sink("s", ParquetSink("t")),
        r"appends, and rows of 'j' replace one another.*mode=\"latest\".*mode=\"upsert\"",
    ),
    "rows looked up that a sink would update": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], as_of="at").sink("s", ParquetSink("t", mode="latest")),
        "'j' emits rows, of which none takes the place of another",
    ),
    "neither": (
        lambda o, c, r: o.join(c, name="j", key=["customer"]),
        "operator 'j' .* replace one another, and has neither of as_of and row_key",
    ),
    "both": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], as_of="at", row_key=["order_id"]),
        "has both of as_of and row_key",
    ),
    "a version is not kept": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], as_of="at", keep="name"),
        "keep='name', but the rows of its right side are versions, of which the latest counts. Leave keep out",
    ),
    "another key": (
        lambda o, c, r: o.join(c, name="j", key=["name"], as_of="at"),
        "join 'j' of pipeline 'shop' joins by name, but the rows of its right side have the key customer",
    ),
    "as of, of rows": (
        lambda o, c, r: o.join(r, name="j", key=["customer"], as_of="at"),
        "as_of='at', but its right side is not a source of versions",
    ),
    "which row is updated": (
        lambda o, c, r: o.join(r, name="j", key=["customer"], row_key=["order_id"]),
        "has a row_key, .* Select one with keep='column'",
    ),
    "no such time": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], as_of="att"),
        "as_of in join 'j' .* names a column 'att', which 'orders' does not have.* Is 'at' meant",
    ),
    "no such row key": (
        lambda o, c, r: o.join(c, name="j", key=["customer"], row_key=["id"]),
        "row_key in join 'j_rows' .* names a column 'id', which 'orders' does not have",
    ),
    "an operator behind a table": (
        lambda o, c, r: c.current("t").key_by("name").aggregate("a", n=count()),
        "operator 'a' of pipeline 'shop' would receive a row of 't' again each time it is updated, and no deletions",
    ),
    "another key in the sink": (
        lambda o, c, r: c.current("t").sink("s", PostgresSink("t", mode="upsert", key=["name"])),
        "has the key name, but 't' has one row for each customer",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_declared_is_refused(what: str) -> None:
    use, message = REFUSED[what]
    with pytest.raises(PipelineDefinitionError, match=message):
        compile_graph(declared(use))


def test_columns_behind_tables_and_joins_are_known() -> None:
    def used(orders: Stream, customers: Stream, rows: Stream) -> None:
        orders.join(customers, name="read", key=["customer"], as_of="checkpoint")
        orders.join(customers, name="now", key=["customer"], row_key=["order_id"])
        customers.current("current")
        customers.history("history")

    pipeline = declared(used)
    known = {
        "read": "customer, order_id, at, name",
        "now": "customer, order_id, at, name",
        "current": "customer, name",
        "history": "customer, name, valid_from, valid_to",
    }
    origins = {vertex.name: vertex for vertex in pipeline.vertices}
    for name, columns in known.items():
        assert columns_of_stream(Stream(pipeline, name), origins) == columns.split(", ")


def test_changes_may_pass_a_step_that_keeps_them(tmp_path: Any) -> None:
    def used(orders: Stream, customers: Stream, rows: Stream) -> None:
        once = customers.transform(lambda frame: frame, deterministic=False, name="once")
        once.current("current")
        orders.join(once, name="read", key=["customer"], as_of="checkpoint")

    compile_graph(declared(used))


def test_a_join_is_another_definition_if_anything_of_it_is() -> None:
    kinds: list[dict[str, Any]] = [{"as_of": "checkpoint"}, {"as_of": "at"}, {"as_of": "at", "how": "left"}]
    kinds += [{"row_key": ["order_id"]}, {"row_key": ["order_id", "at"]}]
    made = [declared(lambda o, c, r, kind=kind: o.join(c, name="j", key=["customer"], **kind)) for kind in kinds]
    graphs = [compile_graph(each) for each in made]
    assert len({fingerprint(graph) for graph in graphs}) == len(kinds)
    assert len({str(graph.outputs) for graph in graphs}) == len(kinds)
    plain = compile_graph(declared(lambda o, c, r: o.join(r, name="j", key=["customer"], keep="name")))
    assert plain.outputs == {"j": "Join(how='inner', keep='name')"}


def test_a_source_of_another_mode_is_another_source() -> None:
    def source(**options: Any) -> Any:
        pipeline = Pipeline("shop")
        pipeline.source("customers", FileSource("dim.csv", schema=CUSTOMERS, **options)).key_by("customer").aggregate(
            "n", n=count()
        )
        return compile_graph(pipeline).endpoints

    files, versions = source(), source(mode="snapshot", key=["customer"])
    (moved,) = find_moved(files, versions)
    assert "customers" in str(moved)
    assert not find_moved(versions, source(mode="snapshot", key=["customer"], max_deleted=1))
