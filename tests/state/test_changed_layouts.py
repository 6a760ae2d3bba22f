"""Changes of a definition, each as a decision and in the rows that are read afterwards.

Nothing is rewritten when the code changes: what is read is what runs of the old columns hold, in the new ones.
"""

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from cases import for_each
from state_layouts import INPUT, K, V, kept, read, rows
from state_operator import Operator, Workshop

from tidegate.pipeline.aggregates import (
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    avg,
    collect_list,
    count,
    count_distinct,
    first,
    max_,
    max_by,
    min_,
    min_by,
    sum_,
)
from tidegate.protocol.schema.state_schema import compare_schemas
from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles, open_state


@dataclass(frozen=True)
class Change:
    """`before` and `after` are layouts. With `said` it migrates, and `stored` reads as `read`; with `refused` it does
    not; with neither nothing has changed. `stored` are input rows of aggregates."""

    before: StateLayout
    after: StateLayout
    said: tuple[str, ...] = ()
    refused: str = ""
    former: dict[str, str | None] = field(default_factory=dict)
    stored: tuple[dict[str, Any], ...] = ()
    read: tuple[dict[str, Any], ...] = ()


def widened(old: pa.DataType, new: pa.DataType, sql: str, value: Any, read: Any = None) -> Change:
    return Change(
        rows(K, ("v", old)),
        rows(K, ("v", new)),
        (f"column 'v' is widened from {sql}",),
        stored=({"k": 1, "v": value}, {"k": 2, "v": None}),
        read=({"k": 1, "v": value if read is None else read}, {"k": 2, "v": None}),
    )


def narrowed(old: pa.DataType, new: pa.DataType, text: str) -> Change:
    return Change(
        rows(K, ("v", old)), rows(K, ("v", new)), refused=f"column 'v' is stored as {text}, which cannot hold"
    )


def of_key(old: pa.DataType, new: pa.DataType, value: Any, said: str = "", refused: str = "") -> Change:
    return Change(
        rows(("k", old), V),
        rows(("k", new), V),
        (said,) if said else (),
        refused,
        stored=({"k": value, "v": 1}, {"k": None, "v": 2}),
        read=({"k": value, "v": 1}, {"k": None, "v": 2}),
    )


ONE, TWO = {"k": 1, "v": 5, "w": 2}, {"k": 1, "v": 7, "w": None}
CHANGES = {
    "nothing": Change(rows(K, V), rows(K, V), stored=({"k": 1, "v": 2},), read=({"k": 1, "v": 2},)),
    "another order": Change(
        rows(K, V, ("w", pa.string())), rows(("w", pa.string()), K, V), stored=({"k": 1, "v": 2, "w": "a"},),
        read=({"k": 1, "w": "a", "v": 2},),
    ),
    "a nullable column": Change(
        rows(K, V), rows(K, V, ("w", pa.string())), ("column 'w' is new: null in rows that are there already",),
        stored=({"k": 1, "v": 2},), read=({"k": 1, "v": 2, "w": None},),
    ),
    "a column with a default": Change(
        rows(K, V), rows(K, V, ("w", pa.string()), w="none"), ("column 'w' is new: 'none' in rows",),
        stored=({"k": 1, "v": 2},), read=({"k": 1, "v": 2, "w": "none"},),
    ),
    "defaults of other types": Change(
        rows(K),
        rows(K, ("d", pa.decimal128(9, 2)), ("t", pa.timestamp("us", tz="UTC")), ("b", pa.bool_()), ("f", pa.float32()),
             ("day", pa.date32()), d=Decimal("1.50"), t="2026-01-02 03:04:05", b=False, f=0.5, day=date(2026, 1, 2)),
        ("column 'd' is new: '1.50'", "column 't' is new", "column 'b' is new: False", "column 'f'", "column 'day'"),
        stored=({"k": 1},),
        read=({"k": 1, "d": Decimal("1.50"), "t": pa.scalar(datetime(2026, 1, 2, 3, 4, 5), pa.timestamp("us", "UTC"))
               .as_py(), "b": False, "f": 0.5, "day": date(2026, 1, 2)},),
    ),
    "a column less": Change(
        rows(K, V, ("w", pa.string())), rows(K, V), ("column 'w' is dropped, with its values",),
        stored=({"k": 1, "v": 2, "w": "a"},), read=({"k": 1, "v": 2},),
    ),
    "a column renamed": Change(
        rows(K, V), rows(K, ("n", pa.int64())), ("column 'n' was called 'v'",), former={"n": "v"},
        stored=({"k": 1, "v": 2},), read=({"k": 1, "n": 2},),
    ),
    "a column renamed and widened": Change(
        rows(K, ("v", pa.int32())), rows(K, ("n", pa.int64())),
        ("column 'n' was called 'v'", "column 'n' is widened from int to bigint"),
        former={"n": "v"}, stored=({"k": 1, "v": 2},), read=({"k": 1, "n": 2},),
    ),
    "a column renamed without a word": Change(
        rows(K, V), rows(K, ("n", pa.int64())), refused=r"previous=Previous\(columns={'n': 'v'}\)",
    ),
    "one column in place of another": Change(
        rows(K, V), rows(K, ("n", pa.int64())), ("column 'n' is new", "column 'v' is dropped"), former={"n": None},
        stored=({"k": 1, "v": 2},), read=({"k": 1, "n": None},),
    ),
    "a rename that is long done": Change(
        rows(K, V), rows(K, V), former={"v": "old"}, stored=({"k": 1, "v": 2},), read=({"k": 1, "v": 2},),
    ),
    "tinyint to smallint": widened(pa.int8(), pa.int16(), "tinyint to smallint", -128),
    "int to bigint": widened(pa.int32(), pa.int64(), "int to bigint", -(2**31)),
    "int to double": widened(pa.int32(), pa.float64(), "int to double", 2**31 - 1),
    "float to double": widened(pa.float32(), pa.float64(), "float to double", 0.5),
    "bigint to decimal": widened(pa.int64(), pa.decimal128(20, 0), "bigint to decimal(20,0)", -(2**63)),
    "more digits": widened(pa.decimal128(9, 2), pa.decimal128(20, 2), "decimal(9,2) to", Decimal("-1.50")),
    "more digits behind the point": widened(
        pa.decimal128(4, 2), pa.decimal128(6, 4), "decimal(4,2) to decimal(6,4)", Decimal("99.99")
    ),
    "date to timestamp_ntz": widened(
        pa.date32(), pa.timestamp("us"), "date to timestamp_ntz", date(1, 1, 1), datetime(1, 1, 1)
    ),
    "void to string": Change(
        rows(K, ("v", pa.null())), rows(K, ("v", pa.string())), ("column 'v' is widened from void to string",),
        stored=({"k": 1, "v": None},), read=({"k": 1, "v": None},),
    ),
    "bigint to int": narrowed(pa.int64(), pa.int32(), "bigint, now int"),
    "bigint to double": narrowed(pa.int64(), pa.float64(), "bigint, now double"),
    "double to float": narrowed(pa.float64(), pa.float32(), "double, now float"),
    "int to string": narrowed(pa.int32(), pa.string(), "int, now string"),
    "bigint to too small a decimal": narrowed(pa.int64(), pa.decimal128(19, 0), r"bigint, now decimal.19,0."),
    "digits moved behind the point": narrowed(pa.decimal128(4, 2), pa.decimal128(5, 4), "decimal.4,2., now dec.*"),
    "timestamp without its zone": narrowed(
        pa.timestamp("us", tz="UTC"), pa.timestamp("us"), "timestamp, now timestamp_ntz"
    ),
    "a key of tinyint to int": of_key(pa.int8(), pa.int32(), -5, "key column 'k' is widened from tinyint to int"),
    "a key of decimal with more digits": of_key(
        pa.decimal128(9, 2), pa.decimal128(18, 2), Decimal("-1.50"), "key column 'k' is widened from decimal(9,2)"
    ),
    "a key of a wide decimal with more digits": of_key(
        pa.decimal128(19, 2), pa.decimal128(38, 2), Decimal("-1.50"), "key column 'k' is widened from decimal(19,2)"
    ),
    "a key of int to bigint": of_key(pa.int32(), pa.int64(), 1, refused="now bigint, and a key of another type has"),
    "a key of float to double": of_key(pa.float32(), pa.float64(), 0.5, refused="now double, and a key of another"),
    "a key of decimal over 18 digits": of_key(
        pa.decimal128(18, 2), pa.decimal128(19, 2), Decimal("1.50"), refused="another hash"
    ),
    "a key with another scale": of_key(pa.decimal128(9, 2), pa.decimal128(12, 4), Decimal(1), refused="another hash"),
    "a key of date to timestamp_ntz": of_key(pa.date32(), pa.timestamp("us"), date(2026, 1, 1), refused="another hash"),
    "a key column renamed": Change(
        rows(K, V), rows(("id", pa.int64()), V, key="id"), ("key column 'id' was called 'k'",), former={"id": "k"},
        stored=({"k": 1, "v": 2},), read=({"id": 1, "v": 2},),
    ),
    "a key column renamed without a word": Change(
        rows(K, V), rows(("id", pa.int64()), V, key="id"), refused=r"the key is stored as \(k bigint\) and now defined"
    ),
    "a key column more": Change(
        rows(K, V), rows(K, V, key=["k", "v"]), refused=r"now defined as \(k bigint, v bigint\)"
    ),
    "keys in another order": Change(
        rows(K, V, key=["k", "v"]), rows(K, V, key=["v", "k"]), refused=r"stored as \(k bigint, v bigint\) and now"
    ),
    "aggregates more": Change(
        kept(n=count()), kept(n=count(), of=count("w"), total=sum_("v"), mean=avg("v"), least=min_("v"),
                              by=max_by("v", "w")),
        ("aggregate 'of', count(w), is new: it counts from now on", "aggregate 'total', sum(v), is new: it knows rows",
         "aggregate 'mean', avg(v)", "aggregate 'least', min(v)", "aggregate 'by', max_by(v, w)"),
        stored=(ONE, TWO),
        read=({"k": 1, "n": 2, "of": 0, "total": None, "mean": None, "least": None, "by": None},),
    ),
    "aggregates less": Change(
        kept(n=count(), mean=avg("v"), by=max_by("v", "w"), total=sum_("v")), kept(total=sum_("v")),
        ("aggregate 'n', count(*), is dropped", "aggregate 'mean', avg(v), is dropped", "aggregate 'by', max_by(v, w)"),
        stored=(ONE, TWO), read=({"k": 1, "total": 12},),
    ),
    "aggregates renamed": Change(
        kept(n=count(), mean=avg("v"), by=max_by("v", "w")),
        kept(rows=count(), average=avg("v"), last=max_by("v", "w")),
        ("column 'rows' was called 'n'", "aggregate 'average' was called 'mean'", "column 'last' was called 'by'"),
        former={"rows": "n", "average": "mean", "last": "by"},
        stored=(ONE, TWO), read=({"k": 1, "rows": 2, "average": 6.0, "last": 5},),
    ),
    "an aggregate renamed without a word": Change(
        kept(n=count()), kept(rows=count()), refused="aggregate 'n' is gone and 'rows' is like it",
    ),
    "an input column renamed": Change(
        kept(total=sum_("v")), kept(pa.schema([K, ("x", pa.int64())]), total=sum_("x")),
        ("aggregate 'total' is sum(x), which was called sum(v)",), former={"x": "v"},
        stored=(ONE, TWO), read=({"k": 1, "total": 12},),
    ),
    "another function": Change(
        kept(a=sum_("v")), kept(a=max_("v")), refused=r"aggregate 'a' is stored as sum\(v\), now max\(v\)"
    ),
    "another input column": Change(
        kept(a=sum_("v")), kept(a=sum_("w")), refused=r"aggregate 'a' is stored as sum\(v\), now sum\(w\)"
    ),
    "a wider input": Change(
        kept(pa.schema([K, ("v", pa.int32())]), total=sum_("v"), most=max_("v"), mean=avg("v")),
        kept(pa.schema([K, V]), total=sum_("v"), most=max_("v"), mean=avg("v")),
        ("column 'most' is widened from int to bigint",),
        stored=({"k": 1, "v": 5}, {"k": 1, "v": 7}), read=({"k": 1, "total": 12, "most": 7, "mean": 6.0},),
    ),
    "another limit of distinct values": Change(
        kept(n=count_distinct("v", limit=5)), kept(n=count_distinct("v", limit=9)),
        ("aggregate 'n' is count_distinct(v, limit=9), and was count_distinct(v, limit=5): its state stays as it is",),
        stored=(ONE, TWO), read=({"k": 1, "n": 2},),
    ),
    "distinct values of a wider input": Change(
        kept(pa.schema([K, ("v", pa.int32())]), n=count_distinct("v"), all=collect_list("v", limit=5)),
        kept(pa.schema([K, V]), n=count_distinct("v"), all=collect_list("v", limit=5)),
        ("column '_values_n' is widened from array<int>", "column 'all' is widened from array<int> to array<bigint>"),
        stored=({"k": 1, "v": 5}, {"k": 1, "v": 7}), read=({"k": 1, "n": 2, "all": [5, 7]},),
    ),
    "distinct values and a list of them are new": Change(
        kept(a=sum_("v")), kept(a=sum_("v"), n=count_distinct("w"), all=collect_list("w", limit=5)),
        ("aggregate 'n', count_distinct(w, limit=10000), is new: it knows rows", "aggregate 'all', collect_list(w, "),
        stored=({"k": 1, "v": 5},), read=({"k": 1, "a": 5, "n": 0, "all": None},),
    ),
    "another limit of a list": Change(
        kept(a=collect_list("v", limit=5)), kept(a=collect_list("v", limit=9)),
        refused=r"aggregate 'a' is stored as collect_list\(v, limit=5\), now collect_list\(v, limit=9\)",
    ),
    "a list in another order": Change(
        kept(a=collect_list("v", limit=5)), kept(a=collect_list("v", limit=5, by="w")),
        refused=r"aggregate 'a' is stored as collect_list\(v, limit=5\), now collect_list\(v, w, limit=5\)",
    ),
    "sketches are new": Change(
        kept(a=sum_("v")), kept(a=sum_("v"), n=approx_count_distinct("w"), p=approx_percentile("w", 0.5)),
        ("aggregate 'n', approx_count_distinct(w, rsd=0.05), is new: it knows", "aggregate 'p', approx_percentile(w, "),
        stored=({"k": 1, "v": 5},), read=({"k": 1, "a": 5, "n": 0, "p": None},),
    ),
    "other figures of the same sketches": Change(
        kept(p=approx_percentile("v", 0.5), q=approx_percentile("v", [0.5]), t=approx_top_k("v", 2)),
        kept(p=approx_percentile("v", 1), q=approx_percentile("v", [0, 1]), t=approx_top_k("v", 1)),
        ("aggregate 'p' is approx_percentile(v, percentage=1.0, k=200), and was approx_percentile(v, percentage=0.5, ",
         "aggregate 'q' is approx_percentiles(v, ", "aggregate 't' is approx_top_k(v, k=1, "),
        stored=({"k": 1, "v": 5}, {"k": 1, "v": 7}),
        read=({"k": 1, "p": 7.0, "q": [5.0, 7.0], "t": [{"item": "5", "count": 1}]},),
    ),
    "another precision": Change(
        kept(n=approx_count_distinct("v")), kept(n=approx_count_distinct("v", rsd=0.02)),
        refused=r"aggregate 'n' is stored as approx_count_distinct\(v, rsd=0.05\), now .*rsd=0.02",
    ),
    "another k of a percentile": Change(
        kept(p=approx_percentile("v", 0.5)), kept(p=approx_percentile("v", 0.5, k=400)), refused="k=200.*k=400",
    ),
    "several percentiles instead of one": Change(
        kept(p=approx_percentile("v", 0.5)), kept(p=approx_percentile("v", [0.5])),
        refused=r"aggregate 'p' is stored as approx_percentile\(.*, now approx_percentiles\(",
    ),
    "another number of items tracked": Change(
        kept(t=approx_top_k("v")), kept(t=approx_top_k("v", max_items_tracked=50)), refused="tracked=1000.*tracked=50",
    ),
    "approximate instead of exact": Change(
        kept(n=count_distinct("v")), kept(n=approx_count_distinct("v")),
        refused=r"aggregate 'n' is stored as count_distinct\(v, limit=10000\), now approx_count_distinct\(v, rsd=0.05",
    ),
    "first is min_by": Change(
        kept(a=min_by("v", "w")), kept(a=first("v", by="w")), stored=(ONE,), read=({"k": 1, "a": 5},),
    ),
    "distinct values instead of a number of them": Change(
        kept(a=count("v")), kept(a=count_distinct("v")),
        refused=r"aggregate 'a' is stored as count\(v\), now count_distinct\(v, limit=10000\)",
    ),
    "an input of another kind": Change(
        kept(total=sum_("v")), kept(pa.schema([K, ("v", pa.float64())]), total=sum_("v")),
        refused="column 'total' is stored as bigint, now double",
    ),
}  # fmt: skip


def successor(change: Change) -> StateLayout:
    return change.after.succeeding(compare_schemas(change.before.schema, change.after.schema, change.former).schema)


@for_each("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_none_or_migrates_or_is_refused(change: Change) -> None:
    found = compare_schemas(change.before.schema, change.after.schema, change.former)
    if change.refused:
        assert any(re.search(change.refused, problem) for problem in found.problems), found.problems
        return
    assert found.problems == ()
    assert len(found.changes) == len(change.said)
    for said in change.said:
        assert any(said in each for each in found.changes), found.changes
    assert found.schema.version == (1 if change.said else 0)
    again = compare_schemas(found.schema, change.after.schema, change.former)
    assert (again.changes, again.problems) == ((), ())
    assert again.schema == found.schema


@pytest.mark.parametrize(
    "change",
    [each for each in CHANGES.values() if not each.refused],
    ids=[n for n, e in CHANGES.items() if not e.refused],
)
def test_what_was_stored_is_read_in_the_new_columns(change: Change, workshop: Workshop, reading: None) -> None:
    """By a scan, after it was merged, and without the definition."""
    operator = Operator(workshop, change.before)
    put(operator, change.stored)
    operator.layout = successor(change)
    expected = sorted(change.read, key=repr)
    assert read(operator.scan()) == expected
    (before,) = {len(operator.snapshots[id_].handles) for id_ in operator.snapshots}
    operator.finish(operator.begin(1), {})
    operator.merge([0, before])
    operator.finish(operator.begin(1), {})
    assert read(operator.scan()) == expected
    (merged,) = operator.state().runs
    assert merged.details["layout"] == operator.layout.fingerprint
    files = StateFiles(str(workshop.storage), str(workshop.cache), operator.state())
    shown = pa.Table.from_batches(list(open_state(files).batches()), open_state(files).schema)
    assert read(shown) == expected


def put(operator: Operator, stored: tuple[dict[str, Any], ...]) -> None:
    if operator.layout.aggregates:
        names = {*operator.layout.key_names, *(c for _, a in operator.layout.aggregates for c in a.columns())}
        schema = pa.schema([(n, INPUT.field(n).type) for n in INPUT.names if n in names])
        if any("int32" in str(field.type) for field in operator.layout.stored):
            schema = pa.schema([K, ("v", pa.int32())])
        table = pa.Table.from_pylist([{n: row[n] for n in schema.names} for row in stored], schema=schema)
        operator.aggregate(table)
    else:
        operator.upsert(pa.Table.from_pylist(list(stored), schema=operator.layout.stored))
