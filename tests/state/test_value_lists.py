"""Aggregates that keep lists of values: exact, the same in whatever order and however many steps rows come."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cases import for_each
from hypothesis import given
from state_epochs import DECLARED, INPUT, input_rows, plain, table_of
from state_layouts import kept
from state_types import EVERY

from tidegate.pipeline.aggregates import Aggregate, approx_percentile, collect_list, count_distinct
from tidegate.protocol.facts.errors import CheckpointDeclinedError, PipelineDefinitionError
from tidegate.state import value_lists
from tidegate.state.accumulators import Stored, accumulate, combined, finished
from tidegate.state.arrivals import Groups
from tidegate.state.changes import changed_rows
from tidegate.state.columns import hashes_of_column
from tidegate.state.keys import Keys
from tidegate.state.layout import StateLayout
from tidegate.state.showing import json_rows
from tidegate.state.subtask import aggregate, scan


def after(workshop: Any, hashed: Any, kind: pa.DataType, epochs: list[list[Any]], **declared: Aggregate) -> Any:
    """The spec and the row of one key after several epochs; `v` are the values, `w` their number."""
    schema = pa.schema([("k", pa.int64()), ("v", kind), ("w", pa.int64())])
    spec, number = workshop.spec(StateLayout.of_aggregates(schema, ["k"], list(declared.items()))), 0
    for values in epochs:
        numbers = list(range(number, number + len(values)))
        number += len(values)
        columns = [pa.array([1] * len(values)), pa.array(values, kind), pa.array(numbers)]
        changed = aggregate(hashed(pa.table(columns, schema=schema), ["k"]).to_batches(), spec)
        spec = workshop.next(spec, changed.write())
    (row,) = pa.Table.from_batches(scan(spec)).to_pylist()
    assert [*map(plain, changed.rows.to_pylist()[0].values())] == [*map(plain, row.values())]
    return spec, row


@for_each(("kind", "values"), [(kind, values) for _, kind, values in EVERY], ids=[name for name, _, _ in EVERY])
def test_every_atomic_type_is_counted_and_collected(kind, values, workshop, hashed) -> None:
    small, large = sorted(values)
    declared = {
        "n": count_distinct("v"),
        "all": collect_list("v", limit=3),
        "timed": collect_list("v", limit=9, by="w"),
    }
    spec, row = after(workshop, hashed, kind, [[large, None], [small, large, None], [None]], **declared)
    assert row == {"k": 1, "n": 2, "all": [small, large, large], "timed": [large, small, large]}
    (shown,) = json_rows(next(scan(spec)))
    assert len(shown["all"]) == 3
    assert StateLayout.from_json(spec.layout.to_json()) == spec.layout


def test_nan_and_both_zeros_are_one_value_each(workshop, hashed) -> None:
    other_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]
    epochs = [[0.0, math.nan], [-0.0, other_nan, None], [math.inf]]
    _, row = after(workshop, hashed, pa.float64(), epochs, n=count_distinct("v"), all=collect_list("v", limit=5))
    assert (row["n"], plain(row["all"])) == (3, [0.0, 0.0, math.inf, "NaN", "NaN"])
    assert [math.copysign(1, zero) for zero in row["all"][:2]] == [1, 1]


def test_a_list_keeps_the_smallest_or_the_earliest_and_nothing_else(workshop, hashed) -> None:
    declared = {"least": collect_list("v", limit=2), "earliest": collect_list("v", limit=2, by="w")}
    for epochs in ([[9, 3, 5, 1]], [[9], [3], [5], [1]], [[9, 3], [5, 1]]):
        _, row = after(workshop, hashed, pa.int64(), epochs, **declared)
        assert (row["least"], row["earliest"]) == ([1, 3], [9, 3])


def test_more_values_than_a_key_may_have_decline_the_checkpoint_with_the_key(workshop, hashed) -> None:
    declared = count_distinct("v", limit=3)
    assert after(workshop, hashed, pa.int64(), [[1, 2, 2], [3, 1]], n=declared)[1]["n"] == 3
    with pytest.raises(CheckpointDeclinedError) as raised:
        after(workshop, hashed, pa.int64(), [[1, 2, 2], [3, 4]], n=declared)
    said = "has 4 values for the key k=1, and may have 3. Nothing was written and the previous checkpoint stands. Raise"
    assert said in str(raised.value)


@for_each("declared", [count_distinct("v"), approx_percentile("v", 0.5)])
def test_more_than_one_array_holds_declines_the_checkpoint_with_a_way_out(declared, workshop, hashed) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(value_lists, "MOST_IN_AN_ARRAY", 3)
        with pytest.raises(CheckpointDeclinedError, match=r"for 1 keys hold \d+ values or bytes, and at most 3 fit"):
            after(workshop, hashed, pa.int64(), [[1, 2, 3, 4]], n=declared)


MISTAKES = {
    "nested": (
        count_distinct("nested"),
        "Column 'nested' has the type list<item: int64>, which keyed state cannot hold",
    ),
    "by nested": (collect_list("k", limit=1, by="nested"), "Column 'nested' has the type list<item: int64>"),
    "void": (
        count_distinct("v"),
        "Aggregate 'a' is count_distinct(v, limit=10000), but 'v' has no type, because it is",
    ),
}


@for_each("name", MISTAKES)
def test_what_cannot_be_collected_is_refused_with_its_column(name) -> None:
    declared, said = MISTAKES[name]
    schema = pa.schema([("k", pa.int64()), ("nested", pa.list_(pa.int64())), ("v", pa.null())])
    with pytest.raises(PipelineDefinitionError) as raised:
        StateLayout.of_aggregates(schema, ["k"], [("a", declared)])
    assert said in str(raised.value)


@for_each("limit", [0, -1, 1_000_001, True, 2.0, "9", None])
def test_a_limit_is_a_whole_number_within_bounds(limit) -> None:
    for function in (count_distinct, collect_list):
        with pytest.raises(PipelineDefinitionError, match=r"\('v', …\) has limit=.*a whole number from 1 to 1,000,000"):
            function("v", limit=limit)


def test_only_a_list_that_differs_is_a_change(workshop, hashed) -> None:
    layout = kept(all=collect_list("v", limit=3))
    table = pa.table({"k": [1, 2, 3, 4], "v": [5, None, 7, 8]}, pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    before = workshop.next(spec := workshop.spec(layout), aggregate(hashed(table, ["k"]).to_batches(), spec).write())
    more = pa.table({"k": [1, 2, 3], "v": [6, None, None]}, table.schema)
    now = workshop.next(before, aggregate(hashed(more, ["k"]).to_batches(), before).write())
    keys = hashed(table.select(["k"]), ["k"]).sort_by("_hash")
    hashes = hashes_of_column(keys.column("_hash"))
    order = pa.array(np.argsort(hashes, kind="stable"))
    found = changed_rows(before, now, Keys(hashes[order.to_numpy()], keys.take(order).select(["k"])))
    assert [(row["k"], row["all"]) for row in found.to_pylist()] == [(1, [5, 6])]


@given(rows=input_rows.filter(bool), cuts=..., turn=...)
def test_two_rows_of_state_are_combined_in_either_order_as_if_their_rows_had_come_together(
    rows: list[Any], cuts: list[bool], turn: bool
) -> None:
    """What session windows rely on, for every aggregate there is."""
    layout = StateLayout.of_aggregates(INPUT, ["name"], list(DECLARED.items()))
    parts: list[list[Any]] = [[], []]
    for at, row in enumerate(rows):
        parts[at < len(cuts) and cuts[at]].append(row)
    parts = [part for part in (parts[::-1] if turn else parts) if part]
    for name, declared in layout.aggregates:
        types = [layout.stored.field(part).type for part in layout.accumulators_of(name)]

        def of(part: list[Any], declared: Aggregate = declared, types: list[Any] = types) -> list[pa.Array]:
            table = table_of(part, INPUT)
            inputs = [table.column(column).chunk(0) for column in declared.columns()]
            one = Groups(np.array([0]), len(part))
            return accumulate(declared, types, inputs, one, Stored(np.empty(0, np.int64), []))

        together = of(rows)
        columns = [pa.concat_arrays(list(pair)) for pair in zip(*(of(part) for part in parts), strict=True)]
        merged = combined(declared, types, columns, Groups(np.array([0]), len(parts)))
        shown, expected = (finished(declared, [pa.chunked_array([c]) for c in each]) for each in (merged, together))
        assert plain(shown.to_pylist()) == plain(expected.to_pylist()), name


def test_what_is_shown_of_a_time_in_a_list_is_text() -> None:
    kind = pa.list_(pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"a": pa.array([[datetime(2026, 1, 1, tzinfo=UTC)], None], kind)})
    assert json_rows(batch) == [{"a": ["2026-01-01 00:00:00.000000Z"]}, {"a": None}]
    decimals = pa.record_batch({"a": pa.array([[Decimal("1.50")]])})
    assert json_rows(decimals) == [{"a": ["1.50"]}]
