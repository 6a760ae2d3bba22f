"""Mistakes that somebody could make in aggregates that keep lists and sketches, each planted, and each noticed."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.pipeline.aggregates import (
    Aggregate,
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    collect_list,
    count_distinct,
)
from tidegate.state import accumulators, kll, sketches, value_lists
from tidegate.state.accumulators import Stored, accumulate, combined, finished
from tidegate.state.arrivals import Groups
from tidegate.state.layout import StateLayout
from tidegate.state.value_lists import Members, TooManyValuesError

DECLARED = {
    "users": count_distinct("v", limit=400), "least": collect_list("v", limit=50),
    "timed": collect_list("v", limit=50, by="at"), "some": approx_count_distinct("v"),
    "median": approx_percentile("v", 0.5), "ends": approx_percentile("v", [0.1, 0.9], k=40),
}  # fmt: skip
FREQUENT = approx_top_k("v", 3, max_items_tracked=20)


def after(declared: Aggregate, steps: Iterable[pa.Table]) -> list[pa.Array]:
    """The accumulators of one key."""
    found = Stored(np.empty(0, np.int64), [])
    kinds = StateLayout.of_aggregates(
        pa.schema([("k", pa.int64()), *next(iter(steps)).schema]), ["k"], [("a", declared)]
    )
    for step in steps:
        inputs = [step.column(name).combine_chunks() for name in declared.columns()]
        types = [field.type for field in kinds.stored][1:]
        found = Stored(np.array([0]), accumulate(declared, types, inputs, Groups(np.array([0]), len(step)), found))
    return found.columns


def shown(declared: Aggregate, columns: list[pa.Array]) -> Any:
    return finished(declared, [pa.chunked_array([column]) for column in columns])[0].as_py()


def rows(seed: int, size: int = 1_200) -> pa.Table:
    """Some 300 numbers, of which few are frequent, many at the same time, both zeros among them."""
    draw = np.random.default_rng(seed)
    values = np.minimum(draw.zipf(1.3, size), 300) - 1.0
    values[::7] *= -0.0
    return pa.table({"v": values, "at": draw.integers(0, 9, size)})


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(len(table)))


def retried() -> None:
    """Each step's rows come in another order: the same state."""
    steps = [rows(seed) for seed in range(4)]
    again = [shuffled(step, seed) for seed, step in enumerate(steps)]
    for name, declared in DECLARED.items():
        one, two = after(declared, steps), after(declared, again)
        assert all(a.equals(b) and bits(a) == bits(b) for a, b in zip(one, two, strict=True)), name


def bits(column: pa.Array) -> bytes:
    values = column.flatten() if pa.types.is_list(column.type) else column.cast(pa.large_binary())
    return b"".join(bytes(buffer) for buffer in values.buffers()[1:] if buffer is not None)


def in_other_steps() -> None:
    """The exact ones and approximate counts do not depend on how rows are divided."""
    table = pa.concat_tables([rows(5), rows(6)]).combine_chunks()
    for name in ("users", "least", "timed", "some"):
        parts = [table.slice(at, 200) for at in range(0, len(table), 200)]
        assert after(DECLARED[name], [table]) == after(DECLARED[name], parts), name
    values = table.column("v").to_numpy() + 0.0
    assert shown(DECLARED["users"], after(DECLARED["users"], [table])) == len(set(values))
    pairs = sorted(zip(table.column("at").to_pylist(), values.tolist(), strict=True))[:50]
    assert shown(DECLARED["timed"], after(DECLARED["timed"], [table])) == [value for _, value in pairs]


def combined_in_either_order() -> None:
    for declared in (*DECLARED.values(), FREQUENT):
        steps = [rows(seed) for seed in (7, 8)]
        if declared is FREQUENT:
            steps = [step.set_column(0, "v", step.column("v").cast(pa.int64())) for step in steps]
        one, two = (after(declared, [step]) for step in steps)
        types, groups = [column.type for column in one], Groups(np.array([0]), 2)
        there = combined(declared, types, [pa.concat_arrays([a, b]) for a, b in zip(one, two, strict=True)], groups)
        back = combined(declared, types, [pa.concat_arrays([b, a]) for a, b in zip(one, two, strict=True)], groups)
        assert there == back, declared
        if declared.function != "approx_top_k":
            merged = shown(declared, after(declared, steps))
            assert np.allclose(np.array(shown(declared, there)), np.array(merged), atol=3), declared


def within_their_error() -> None:
    for declared in (DECLARED["median"], approx_percentile("v", 0.9)):
        rank = declared.option("percentage")
        ranks = []
        for seed in range(12):
            values = np.random.default_rng(seed).normal(size=30_000)
            steps = [pa.table({"v": part}) for part in np.array_split(values, 60)]
            ranks.append((values <= shown(declared, after(declared, steps))).mean())
        assert np.abs(np.array(ranks) - rank).max() < 0.0133
    table = rows(9)
    whole = table.set_column(0, "v", table.column("v").cast(pa.int64()))
    values, often = np.unique(whole.column("v").to_numpy(), return_counts=True)
    exact = sorted(zip((-often).tolist(), map(str, values.tolist()), strict=True))[:3]
    declared = approx_top_k("v", 3)
    for steps in ([whole], [whole.slice(0, 500), whole.slice(500)]):
        assert shown(declared, after(declared, steps)) == [{"item": item, "count": -n} for n, item in exact]


def one_value_too_many() -> None:
    few = count_distinct("v", limit=3)
    with pytest.raises(TooManyValuesError):
        after(few, [pa.table({"v": [1.0, 2.0]}), pa.table({"v": [3.0, 4.0]})])


def at_random(_: Any) -> Any:
    return lambda *given: random.randrange(2)


def without_a_sort(_: Any) -> Any:
    return lambda members, groups: (members.columns[0], np.bincount(members.groups, minlength=groups))


def by_the_last_column_alone(original: Any) -> Any:
    def ordered(members: Members) -> Any:
        order, codes = original(Members(members.groups, members.columns[-1:]))
        return order, [codes[0]] * len(members.columns)

    return ordered


def each_value_once_a_step(original: Any) -> Any:
    def counted(members: Members, groups: int) -> Any:
        values, sizes, often = original(members, groups)
        return values, sizes, np.ones_like(often)

    return counted


def cut_off(original: Any) -> Any:
    def distinct(members: Members, groups: int, limit: int) -> Any:
        try:
            return original(members, groups, limit)
        except TooManyValuesError:
            return value_lists.smallest(members, groups, limit)[0]

    return distinct


def without_duplicates_removed(original: Any) -> Any:
    return lambda members, groups, limit: value_lists.smallest(members, groups, 10_000)[0]


def forgotten(_: Any) -> Any:
    return lambda groups, lists: Members(groups[:0], [column.flatten()[:0] for column in lists])


def begun_anew(original: Any) -> Any:
    return lambda aggregate, members, groups, known, stored: original(aggregate, members, groups, known, None)


def as_it_was_filled(_: Any) -> Any:
    return lambda sketch: bytes(sketch.serialize_compact())


def same(_: Any) -> Any:
    return lambda value: value


@dataclass
class Mistake:
    """In a function of this name, noticed by what happens."""

    owner: Any
    name: str
    make: Callable[[Any], Any]
    happens: Callable[[], None]


MISTAKES = {
    "a coin is drawn at random": Mistake(kll, "_coin", at_random, retried),
    "all coins fall alike": Mistake(kll, "_coin", lambda _: lambda *given: 0, within_their_error),
    "values enter a KLL sketch as they come": Mistake(sketches, "ordered", without_a_sort, retried),
    "a HyperLogLog sketch knows the order of its updates": Mistake(
        sketches._Distinct, "_in_one_form", lambda _: staticmethod(as_it_was_filled(_)), in_other_steps
    ),
    "a sketch begins anew with each step": Mistake(accumulators, "updated", begun_anew, within_their_error),
    "sketches are united in the order that they come in": Mistake(
        sketches, "sorted", lambda _: list, combined_in_either_order
    ),
    "an item counts once a step": Mistake(sketches, "counted", each_value_once_a_step, within_their_error),
    "values of the same time are in the order of arrival": Mistake(
        value_lists, "_ordered", by_the_last_column_alone, retried
    ),
    "both zeros are kept": Mistake(value_lists, "canonical_key", same, retried),
    "what was stored is forgotten": Mistake(Members, "of_lists", forgotten, in_other_steps),
    "a value counts again in each row": Mistake(accumulators, "distinct", without_duplicates_removed, in_other_steps),
    "beyond the limit, values are left out of a count": Mistake(accumulators, "distinct", cut_off, one_value_too_many),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_planted_mistake_is_noticed(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = MISTAKES[sentence]
    made = sorted if mistake.name == "sorted" else getattr(mistake.owner, mistake.name)
    monkeypatch.setattr(mistake.owner, mistake.name, mistake.make(made), raising=mistake.name != "sorted")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        mistake.happens()


@pytest.mark.parametrize("happens", {m.happens.__name__: m.happens for m in MISTAKES.values()}.values())
def test_and_by_nothing_else(happens: Callable[[], None]) -> None:
    happens()
