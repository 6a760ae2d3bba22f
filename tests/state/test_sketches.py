"""Aggregates that are sketches: within their stated error, and the same bytes for the same rows in whatever order."""

import math
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from cases import for_each
from state_layouts import kept
from state_types import EVERY

from tidegate.pipeline.aggregates import (
    Aggregate,
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
)
from tidegate.protocol.facts.errors import NotInstalledError, PipelineDefinitionError, StateSchemaError
from tidegate.state import sketch_library
from tidegate.state.kll import Kll, merged
from tidegate.state.layout import StateLayout
from tidegate.state.sketches import shown, united, updated
from tidegate.state.subtask import aggregate
from tidegate.state.value_lists import Members

NONE = np.empty(0, np.int64)
DISTINCT, MEDIAN = approx_count_distinct("v"), approx_percentile("v", 0.5)
FREQUENT = approx_top_k("v", 3, max_items_tracked=20)
EACH = {"distinct": DISTINCT, "median": MEDIAN, "frequent": FREQUENT}
ZERO = np.array([0])


def sketch(declared: Aggregate, values: Any, stored: pa.Array | None = None) -> pa.Array:
    """Of one group, after another step."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    members = Members.of_rows(np.zeros(len(column), np.int64), [column])
    return updated(declared, members, 1, NONE if stored is None else ZERO, stored)


def value(declared: Aggregate, stored: pa.Array) -> Any:
    return shown(declared, stored)[0].as_py()


def in_steps(declared: Aggregate, values: Any, steps: int) -> pa.Array:
    stored = None
    for part in np.array_split(values, steps):
        stored = sketch(declared, part, stored)
    return stored


def drawn(seed: int, size: int) -> Any:
    """Numbers of which few are frequent, and many are there once."""
    return np.minimum(np.random.default_rng(seed).zipf(1.2, size), 1 << 40)


@for_each("declared", EACH.values(), ids=list(EACH))
def test_a_retry_with_its_rows_in_another_order_writes_the_same_bytes(declared, workshop, hashed) -> None:
    """Several steps, of which each is retried; with enough values for every kind to leave things out."""
    spec, values = workshop.spec(kept(a=declared)), drawn(1, 60_000)
    for step, part in enumerate(np.array_split(values, 3)):
        runs = []
        for order in range(3):
            mixed = np.random.default_rng(order).permutation(part)
            table = pa.table({"k": mixed % 7, "v": mixed})
            batches = hashed(table, ["k"]).to_batches(max_chunksize=500)
            runs.append(aggregate(batches, spec))
        assert runs[0].run.equals(runs[1].run), step
        assert runs[0].run.equals(runs[2].run), step
        spec = workshop.next(spec, runs[0].write())


@for_each("declared", EACH.values(), ids=list(EACH))
def test_two_sketches_make_the_same_one_in_either_order(declared) -> None:
    values = drawn(2, 30_000)
    one, two, three = (in_steps(declared, part, 2) for part in np.array_split(values, 3))
    together = united(declared, pa.concat_arrays([one, two, three]), ZERO)
    assert together.equals(united(declared, pa.concat_arrays([three, one, two]), ZERO))
    padded = united(declared, pa.concat_arrays([one, pa.nulls(1, pa.binary()), two]), np.array([0, 1]))
    assert padded[0].equals(one[0])
    assert padded[1].equals(two[0])


@for_each("size", [1, 2, 7, 8, 40, 300, 383, 400, 5_000, 100_000])
def test_an_approximate_count_does_not_depend_on_steps_and_merges(size) -> None:
    values = np.random.default_rng(size).integers(-(2**62), 2**62, size)
    at_once = sketch(DISTINCT, values)
    assert at_once.equals(in_steps(DISTINCT, values[::-1], min(size, 9)))
    halves = pa.concat_arrays([sketch(DISTINCT, values[size // 3 :]), sketch(DISTINCT, values[: size // 2 + 1])])
    assert united(DISTINCT, halves, ZERO).equals(at_once)


def test_approximate_counts_are_within_their_standard_deviation() -> None:
    for rsd in (0.05, 0.02):
        declared = approx_count_distinct("v", rsd=rsd)
        errors = []
        for size in (100, 1_000, 20_000) * 20:
            values = np.random.default_rng(len(errors)).integers(0, 1 << 60, size)
            errors.append(value(declared, in_steps(declared, values, 2)) / size - 1)
        assert math.sqrt(np.mean(np.square(errors))) <= rsd
        assert max(map(abs, errors)) <= 3 * rsd
        assert sketch(declared, values).nbytes <= 2 * (1.04 / rsd) ** 2 + 100


def test_percentiles_are_within_the_stated_rank_error_after_many_steps() -> None:
    for k, bound in ((200, 0.0133), (400, 0.0068)):
        declared = approx_percentile("v", [0.01, 0.5, 0.99], k=k)
        errors = []
        for seed in range(30):
            values = np.random.default_rng(seed).lognormal(size=10_000)
            values = np.sort(values) if seed % 3 == 0 else values
            stored = in_steps(declared, values, 25)
            ranks = np.searchsorted(np.sort(values), value(declared, stored), side="right") / len(values)
            errors += list(np.abs(ranks - [0.01, 0.5, 0.99]))
            assert stored.nbytes <= 24 * k + 200
        assert np.quantile(errors, 0.99) <= bound
    assert value(MEDIAN, in_steps(MEDIAN, np.arange(200.0), 200)) == 99, "of as few, it is exact"


def test_frequent_items_are_within_the_stated_error() -> None:
    values = drawn(5, 50_000)
    stored = in_steps(FREQUENT, values, 10)
    for item in value(FREQUENT, stored):
        true = int((values == int(item["item"])).sum())
        assert true <= item["count"] <= true + 3 * len(values) / 20
    assert value(FREQUENT, stored)[0]["item"] == "1"
    exact = approx_top_k("v", 3)
    assert value(exact, sketch(exact, ["b", "a", "c", "c", "", "", "b"])) == [
        {"item": "", "count": 2}, {"item": "b", "count": 2}, {"item": "c", "count": 2},
    ]  # fmt: skip


def test_the_library_reads_and_merges_what_is_written_here() -> None:
    read = datasketches.kll_doubles_sketch.deserialize
    for size in (1, 2, 200, 201, 5_000, 300_000):
        values = np.sort(np.random.default_rng(size).normal(size=size))
        ours = Kll.of(200, values).compressed().to_bytes()
        theirs = read(ours)
        assert (theirs.n, theirs.get_min_value(), theirs.get_max_value()) == (size, values[0], values[-1])
        assert Kll.from_bytes(theirs.serialize()).to_bytes() == ours
        theirs.merge(read(ours))
        assert theirs.n == 2 * size
        assert merged([Kll.from_bytes(theirs.serialize())] * 2).n == 4 * size


@for_each(("kind", "values"), [(kind, values) for _, kind, values in EVERY], ids=[name for name, _, _ in EVERY])
def test_every_type_is_counted_and_others_are_refused_with_the_column(kind, values) -> None:
    assert value(DISTINCT, sketch(DISTINCT, pa.array([*values, *values, None], kind))) == 2
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    for declared, fits in ((MEDIAN, numeric), (FREQUENT, kind not in NO_TEXT)):
        if fits:
            assert value(declared, sketch(declared, pa.array([*values, None], kind))) is not None
            continue
        with pytest.raises(PipelineDefinitionError, match=r"Aggregate 'a' is approx_.*, but 'v' is "):
            StateLayout.of_aggregates(pa.schema([("k", pa.int64()), ("v", kind)]), ["k"], [("a", declared)])


NO_TEXT = (pa.float32(), pa.float64(), pa.binary(), pa.time64("ns"), pa.duration("us"))


def test_nulls_nan_zeros_and_empty_strings() -> None:
    numbers = [0.0, -0.0, math.nan, math.nan, None, math.inf, -math.inf]
    assert value(DISTINCT, sketch(DISTINCT, numbers)) == 4
    ends = approx_percentile("v", [0, 0.5, 1])
    assert value(ends, sketch(ends, numbers)) == [-math.inf, 0.0, math.inf], "NaN does not count"
    assert value(DISTINCT, sketch(DISTINCT, ["", "a", "", None])) == 2
    for declared, none in ((DISTINCT, 0), (MEDIAN, None), (FREQUENT, None), (ends, None)):
        empty = sketch(declared, pa.nulls(2, pa.int64()))
        assert (empty.null_count, value(declared, empty)) == (1, none)
        assert value(declared, sketch(declared, pa.nulls(2, pa.int64()), sketch(declared, [5]))) is not None


@for_each("declared", EACH.values(), ids=list(EACH))
def test_bytes_that_are_no_sketch_are_named(declared) -> None:
    for wrong in (b"", b"no sketch at all", sketch(FREQUENT if declared is MEDIAN else MEDIAN, [1, 2])[0].as_py()):
        stored = pa.array([wrong])
        for use in (
            lambda stored=stored: sketch(declared, [5], stored),
            lambda stored=stored: united(declared, pa.concat_arrays([stored, sketch(declared, [5])]), ZERO),
            lambda stored=stored: shown(declared, stored),
        ):
            with pytest.raises(
                StateSchemaError, match=r"The value stored for approx_.* is not a sketch of Apache DataSketch"
            ):
                use()


MISTAKES = {
    "rsd": (lambda: approx_count_distinct("v", rsd=0.001), "approx_count_distinct('v', …) has rsd=0.001. The relative"),
    "percentage": (lambda: approx_percentile("v", 99), "approx_percentile('v', …) has percentage=99. Give a number"),
    "no percentage": (lambda: approx_percentile("v", []), "approx_percentile('v', …) has percentage=[]. Give a number"),
    "text": (lambda: approx_percentile("v", "0.5"), "has percentage='0.5'. Give a number from 0 to 1"),
    "k": (lambda: approx_percentile("v", 0.5, k=7), "has k=7. It must be a whole number from 8 to 65,535."),
    "top": (lambda: approx_top_k("v", 0), "approx_top_k('v', …) has k=0. It must be a whole number from 1 to 1,000."),
    "tracked": (lambda: approx_top_k("v", max_items_tracked=0), "has max_items_tracked=0. It must be a whole"),
    "nested": (lambda: of("nested"), "Column 'nested' has the type list<item: int64>, which keyed state cannot hold"),
}  # fmt: skip


def of(column: str) -> StateLayout:
    schema = pa.schema([("k", pa.int64()), ("nested", pa.list_(pa.int64())), ("v", pa.int64())])
    return StateLayout.of_aggregates(schema, ["k"], [("a", approx_count_distinct(column))])


@for_each("name", MISTAKES)
def test_a_declaration_that_cannot_work_is_refused(name) -> None:
    declare, said = MISTAKES[name]
    with pytest.raises(PipelineDefinitionError) as raised:
        declare()
    assert said in str(raised.value)


def test_without_the_library_the_definition_is_refused_with_the_extra(monkeypatch) -> None:
    monkeypatch.setattr(sketch_library, "find_spec", lambda name: None)
    sketch_library.require_library.cache_clear()
    with pytest.raises(NotInstalledError, match=r"datasketches is not installed.*pip install 'tidegate\[sketches\]'"):
        of("v")
    monkeypatch.undo()
    sketch_library.require_library.cache_clear()
    of("v")
