"""Every atomic type of Spark survives as a value and as a key; accumulators keep Spark's types and semantics."""

import math
import subprocess
import sys
from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from state_types import EVERY, NOON, TYPES

from tidegate.pipeline.aggregates import Aggregate, avg, count, max_, max_by, min_, min_by, sum_
from tidegate.protocol.facts.errors import CheckpointDeclinedError, PipelineDefinitionError, StateSchemaError
from tidegate.state import opening
from tidegate.state.columns import from_fixed
from tidegate.state.decoded_runs import DecodedRuns
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import aggregate, lookup, scan, upsert


def state_table() -> pa.Table:
    """One row of small values, one of large ones, one of nulls, and a column that is always null."""
    columns = {"id": pa.array([1, 2, 3])}
    columns |= {name: pa.array([*values, None], kind) for name, kind, values in EVERY}
    return pa.table(columns | {"void": pa.nulls(3)})


def test_every_atomic_type_and_null_come_back_as_they_were_written(workshop, hashed) -> None:
    table = state_table()
    layout = StateLayout.of_rows(table.schema, ["id"])
    changed = upsert(hashed(table, ["id"]).to_batches(), workshop.spec(layout))
    spec = workshop.spec(layout, (changed.write(),))
    assert changed.rows.sort_by("id").equals(table)
    assert pa.Table.from_batches(scan(spec)).sort_by("id").equals(table)
    assert lookup(hashed(table.select(["id"]), ["id"]).to_batches(), spec).sort_by("id").equals(table)


def test_what_stays_of_a_written_run_in_memory_is_what_its_file_holds(workshop, hashed, monkeypatch) -> None:
    roomy = DecodedRuns(each=1 << 20, most=1 << 20)
    monkeypatch.setattr(opening, "_in_memory", roomy)
    table = state_table()
    layout = StateLayout.of_rows(table.schema, ["id"])
    first = upsert(hashed(table, ["id"]).to_batches(), workshop.spec(layout)).write()
    gone = table.append_column("_delete", pa.array([True, False, True]))
    second = upsert(hashed(gone, ["id"]).to_batches(), workshop.spec(layout, (first,))).write()
    spec = workshop.spec(layout, (first, second))
    held = [opening.open_run(spec, run)[0].rows for run in spec.runs]
    roomy.clear()
    for run, kept in zip(spec.runs, held, strict=True):
        (read,) = opening.open_run(spec, run)
        assert read.rows is not kept
        assert read.rows.equals(kept, check_metadata=True)
    assert "_tombstone" in read.rows.schema.names


def test_a_run_is_plain_parquet_with_spark_type_names_in_its_metadata(workshop, hashed) -> None:
    table = state_table()
    layout = StateLayout.of_rows(table.schema, ["id"])
    changed = upsert(hashed(table, ["id"]).to_batches(), workshop.spec(layout))
    stored = pq.read_table(workshop.file(changed.write()))
    assert stored.drop_columns(["_hash"]).sort_by("id").replace_schema_metadata(None).equals(table)
    for name in TYPES:
        assert f'["{name}", "{name}"]'.encode() in stored.schema.metadata[b"tidegate.state"]
    assert StateLayout.from_json(layout.to_json()) == layout


@pytest.mark.parametrize(("name", "kind", "values"), EVERY, ids=list(TYPES))
def test_every_atomic_type_is_a_key_and_null_is_a_key_of_its_own(name, kind, values, workshop, hashed) -> None:
    keys = [*values, None]
    table = pa.table({"key": pa.array(keys, kind), "n": pa.array([1, 2, 3])})
    layout = StateLayout.of_rows(table.schema, ["key"])
    # All keys share one hash, so that equality of the keys alone has to tell them apart.
    first = upsert(hashed(table, ["key"], 0).to_batches(), workshop.spec(layout)).write()
    changes = pa.table({"key": pa.array(keys[1:], kind), "n": pa.array([20, 30])})
    second = upsert(hashed(changes, ["key"], 0).to_batches(), workshop.next(workshop.spec(layout), first)).write()
    spec = workshop.spec(layout, (first, second))
    found = lookup(hashed(table.select(["key"]), ["key"], 0).to_batches(), spec)
    assert dict(zip(found.column("key").to_pylist(), found.column("n").to_pylist(), strict=True)) == dict(
        zip(keys, [1, 20, 30], strict=True)
    )


def test_time_zones_and_large_strings_are_only_other_spellings_of_a_type(workshop, hashed) -> None:
    layout = StateLayout.of_rows(pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))]), ["k"])
    moment = NOON.replace(tzinfo=UTC)
    table = pa.table({"k": pa.array(["a"], pa.large_string()), "at": pa.array([moment], pa.timestamp("us", "Etc/UTC"))})
    assert upsert(hashed(table, ["k"]).to_batches(), workshop.spec(layout)).rows.to_pylist() == [
        {"k": "a", "at": moment}
    ]


def aggregated(workshop: Any, hashed: Any, kind: Any, epochs: list[list[Any]], *declared: Aggregate) -> list[Any]:
    """The aggregates of one key after several epochs; `v` are the values, `w` their number."""
    schema = pa.schema([("k", pa.int64()), ("v", kind), ("w", pa.int64())])
    layout = StateLayout.of_aggregates(schema, ["k"], [(f"a{at}", one) for at, one in enumerate(declared)])
    spec, number = workshop.spec(layout), 0
    for values in epochs:
        numbers = list(range(number, number + len(values)))
        number += len(values)
        columns = [pa.array([1] * len(values)), pa.array(values, kind), pa.array(numbers)]
        changed = aggregate(hashed(pa.table(columns, schema=schema), ["k"]).to_batches(), spec)
        spec = workshop.next(spec, changed.write())
    return [changed.rows.column(f"a{at}")[0].as_py() for at in range(len(declared))]


@pytest.mark.parametrize(("name", "kind", "values"), EVERY, ids=list(TYPES))
def test_extremes_of_every_atomic_type_follow_its_order(name, kind, values, workshop, hashed) -> None:
    small, large = sorted(values)
    declared = (
        min_("v"),
        max_("v"),
        min_by("v", "w"),
        max_by("v", "w"),
        min_by("w", "v"),
        max_by("w", "v"),
        count("v"),
    )
    expected = [small, large, large, None, 3, 0, 4]
    assert (
        aggregated(workshop, hashed, kind, [[large, None], [None, small], [large, small, None]], *declared) == expected
    )
    assert aggregated(workshop, hashed, kind, [[None], [None]], *declared)[:2] == [None, None]


def test_nan_is_larger_than_every_number_and_minus_zero_equals_zero(workshop, hashed) -> None:
    least, most, first = aggregated(
        workshop, hashed, pa.float64(), [[math.inf], [math.nan], [-0.0]], min_("v"), max_("v"), max_by("w", "v")
    )
    assert (least, math.isnan(most), first) == (0.0, True, 1)


@pytest.mark.parametrize(("kind", "bits"), [(pa.float64(), np.uint64), (pa.float32(), np.uint32)])
def test_every_nan_is_the_same_key_and_so_are_both_zeros(kind, bits, workshop, hashed) -> None:
    nan = 0x7FF8000000000000 if bits is np.uint64 else 0x7FC00000
    sign = 1 << (63 if bits is np.uint64 else 31)
    keys = from_fixed(kind, np.array([nan, nan | sign, nan + 5, 0, sign], bits))
    schema = pa.schema([("k", kind)])
    layout = StateLayout.of_aggregates(schema, ["k"], [("n", count())])
    changed = aggregate(hashed(pa.table([keys], schema=schema), ["k"]).to_batches(), workshop.spec(layout))
    assert sorted(changed.rows.column("n").to_pylist()) == [2, 3]


def test_sums_keep_sparks_types_and_are_exact(workshop, hashed) -> None:
    big = Decimal("9" * 28)
    assert aggregated(workshop, hashed, pa.int8(), [[127] * 3, [-128]], sum_("v"), avg("v")) == [253, 63.25]
    assert aggregated(workshop, hashed, pa.decimal128(28, 0), [[big, big], [-big, None]], sum_("v")) == [big]
    assert aggregated(
        workshop, hashed, pa.decimal128(5, 2), [[Decimal("1.25")], [None, Decimal("2.50")]], avg("v")
    ) == [1.875]
    assert aggregated(workshop, hashed, pa.int64(), [[2**62, 2**62, -(2**62), -1]], sum_("v")) == [2**62 - 1]
    schema = pa.schema([("k", pa.int64()), ("d", pa.decimal128(30, 2)), ("f", pa.float32())])
    layout = StateLayout.of_aggregates(schema, ["k"], [("d", sum_("d")), ("f", sum_("f")), ("n", count())])
    assert layout.rows.types == [pa.int64(), pa.decimal128(38, 2), pa.float64(), pa.int64()]


@pytest.mark.parametrize(
    ("kind", "epochs"),
    [
        (pa.int64(), [[2**62, 2**62]]),
        (pa.int64(), [[2**63 - 1], [1]]),
        (pa.int64(), [[-(2**63)], [-1]]),
        (pa.decimal128(38, 0), [[Decimal("9" * 38)], [Decimal(1)]]),
        (pa.decimal128(38, 0), [[Decimal("-" + "9" * 38)] * 8]),
    ],
)
def test_a_sum_that_does_not_fit_is_an_error_that_names_the_key(kind, epochs, workshop, hashed) -> None:
    with pytest.raises(CheckpointDeclinedError) as raised:
        aggregated(workshop, hashed, kind, epochs, sum_("v"))
    assert "Aggregate 'a0' of operator carrier_delays of pipeline flight_delays" in str(raised.value)
    assert "for the key k=1. Nothing was written" in str(raised.value)


def test_definitions_that_cannot_work_are_refused_with_the_column_named() -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("nested", pa.list_(pa.int64()))])
    for wrong, declared, text in [
        (["missing"], count(), "There is no column 'missing'; the rows have k"),
        (["k"], sum_("s"), "Aggregate 'a' is sum(s), but 's' is string"),
        (["nested"], count(), "Column 'nested' has the type list<item: int64>"),
        (["k"], Aggregate("median", "k"), "unknown function 'median'"),
    ]:
        with pytest.raises(PipelineDefinitionError) as raised:
            StateLayout.of_aggregates(schema, wrong, [("a", declared)])
        assert text in str(raised.value)
    with pytest.raises(PipelineDefinitionError, match="State columns cannot be called _hash"):
        StateLayout.of_rows(pa.schema([("_hash", pa.int64())]), ["_hash"])


def test_rows_of_other_types_than_the_layout_are_refused(workshop, hashed) -> None:
    layout = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("n", pa.int32())]), ["k"])
    table = hashed(pa.table({"k": [1], "n": [1]}), ["k"])
    with pytest.raises(StateSchemaError, match="column 'n' is int64 and should be int32"):
        upsert(table.to_batches(), workshop.spec(layout))
    with pytest.raises(CheckpointDeclinedError, match="lack the column 'n'; they have _hash, k"):
        upsert(table.drop_columns(["n"]).to_batches(), workshop.spec(layout))
    summed = StateLayout.of_aggregates(pa.schema([("k", pa.int64()), ("n", pa.int32())]), ["k"], [("t", max_("n"))])
    with pytest.raises(StateSchemaError, match="column 't' is stored as int, now bigint"):
        aggregate(table.to_batches(), workshop.spec(summed))


def test_the_programs_of_a_subtask_never_load_pandas(tmp_path) -> None:
    program = f"""
import sys
sys.modules["pandas"] = None
import numpy as np, pyarrow as pa
from tidegate.pipeline.aggregates import (approx_count_distinct, approx_percentile, approx_top_k, avg, collect_list,
    count, count_distinct, max_, min_by)
from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.state.columns import booleans, integers
from tidegate.state.compaction import compact
from tidegate.state.hashing import spark_hash
from tidegate.state.columns import from_fixed
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import SubtaskSpec, aggregate, lookup, scan, upsert
keys = integers(np.arange(1000))
deleted = booleans(np.arange(1000) % 2 == 0)
rows = pa.Table.from_arrays([spark_hash([keys]), keys, keys, deleted], ["_hash", "k", "v", "_delete"])
schema = rows.schema.remove(0).remove(2)
def spec(layout, prefix, *runs):
    cache, groups = {str(tmp_path / "cache")!r}, key_groups_of(0, 1, 8)
    return SubtaskSpec({str(tmp_path)!r}, cache, "o", "p", 1, prefix, groups, 8, layout, runs)
declared = [("n", count()), ("a", avg("v")), ("m", max_("v")), ("b", min_by("k", "v")), ("d", count_distinct("v")),
    ("l", collect_list("v", limit=2)), ("s", approx_count_distinct("v")), ("p", approx_percentile("v", 0.5)),
    ("q", approx_percentile("v", [0.5])), ("t", approx_top_k("v"))]
summed = StateLayout.of_aggregates(schema, ["k"], declared)
first = aggregate(rows.to_batches(), spec(summed, "a1")).write()
second = aggregate(rows.to_batches(), spec(summed, "a2", first)).write()
runs = (first, second)
merged = compact(spec(summed, "a3", *runs), runs)
assert sum(batch.num_rows for batch in scan(spec(summed, "", merged))) == 1000
plain = StateLayout.of_rows(schema, ["k"])
first = upsert(rows.select(["_hash", "k", "v"]).to_batches(), spec(plain, "u1")).write()
second = upsert(rows.to_batches(), spec(plain, "u2", first)).write()
assert lookup(rows.to_batches(), spec(plain, "", first, second)).num_rows == 500
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "epochs", [[["b", "a", "c"]], [["a"], ["b"], ["c"]], [["c"], ["b"], ["a"]], [["b"], ["c", "a"]]]
)
def test_of_values_at_the_same_extreme_the_smallest_is_taken_in_whatever_order_they_come(
    epochs, workshop, hashed
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
    declared = [("first", min_by("v", "w")), ("last", max_by("v", "w"))]
    spec = workshop.spec(StateLayout.of_aggregates(schema, ["k"], declared))
    for values in epochs:
        table = pa.table([[1] * len(values), values, [5] * len(values)], schema=schema)
        changed = aggregate(hashed(table, ["k"]).to_batches(), spec)
        spec = workshop.next(spec, changed.write())
    assert changed.rows.to_pylist() == [{"k": 1, "first": "a", "last": "a"}]
