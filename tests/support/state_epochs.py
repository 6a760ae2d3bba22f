"""Epochs of keyed state for property tests, and their rows as a dictionary has them."""

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tidegate.pipeline.aggregates import (
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    avg,
    collect_list,
    count,
    count_distinct,
    first,
    last,
    max_,
    max_by,
    min_,
    min_by,
    sum_,
)
from tidegate.state.layout import StateLayout

KEYS = ["name", "place"]
KEY_SCHEMA = [("name", pa.string()), ("place", pa.float64())]
ROWS = StateLayout.of_rows(pa.schema([*KEY_SCHEMA, ("number", pa.int32()), ("text", pa.string())]), KEYS)
INPUT = pa.schema([*KEY_SCHEMA, ("v", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
DECLARED = {
    "rows": count(), "texts": count("s"), "total": sum_("v"), "mean": avg("v"), "least": min_("f"), "most": max_("f"),
    "last": max_("s"), "first_text": min_by("s", "v"), "last_text": max_by("s", "f"),
    "first_event": first("f", by="v"), "last_event": last("f", by="v"), "different": count_distinct("f"),
    "words": count_distinct("s"), "numbers": collect_list("v", limit=3), "in_order": collect_list("f", limit=2, by="s"),
    "some": approx_count_distinct("f"), "middle": approx_percentile("v", 0.5), "ends": approx_percentile("v", [0, 1]),
    "frequent": approx_top_k("s", 2),
}  # fmt: skip
AGGREGATES = StateLayout.of_aggregates(INPUT, KEYS, list(DECLARED.items()))
#: A row of `ROWS`, and whether it deletes its key.
UPSERTED = pa.schema([*ROWS.rows, ("_delete", pa.bool_())])
# Few hashes for many keys, so that collisions are the rule; -1 leaves hashes as they are.
MASKS = st.sampled_from([-1, -0x1000000000000000, 0x2000000000000001])

names = st.none() | st.sampled_from(["", "a", "b", "JFK", "ünïcode"])
places = st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf])
numbers = st.none() | st.integers(-5, 5)
floats = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf])
texts = st.none() | st.sampled_from(["", "x", "y", "z"])
input_rows = st.lists(st.tuples(names, places, numbers, floats, texts), max_size=25)
state_rows = st.lists(st.tuples(names, places, numbers, texts, st.none() | st.booleans()), max_size=12)


def between_epochs() -> Any:
    return {
        "parallelism": st.integers(1, 8),
        "merge": st.none() | st.just("planned") | st.tuples(st.integers(0, 4), st.integers(1, 4)),
        "merged_subtask": st.none() | st.integers(0, 7),  # None: all of them
        "lose_cache": st.booleans(),
    }


def epochs(rows: Any) -> Any:
    return st.lists(st.fixed_dictionaries({"rows": rows, **between_epochs()}), min_size=1, max_size=6)


def plain(value: Any) -> Any:
    """Values as a dictionary should compare them: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return [plain(each) for each in value] if isinstance(value, list) else value


def table_of(rows: Iterable[Any], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[]] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def key_of(row: Any) -> tuple[Any, ...]:
    return tuple(plain(value) for value in row[:2])


def as_dict(table: pa.Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = [tuple(plain(value) for value in row.values()) for row in table.to_pylist()]
    assert len({row[:2] for row in rows}) == len(rows), "a key was returned twice"
    return {row[:2]: row[2:] for row in rows}
