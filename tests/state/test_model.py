"""Keyed state beside an obvious model: a dictionary. Any order of epochs, compactions, rescales and lost caches."""

import math
import shutil
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from state_epochs import (
    AGGREGATES,
    INPUT,
    MASKS,
    ROWS,
    UPSERTED,
    as_dict,
    epochs,
    input_rows,
    key_of,
    plain,
    state_rows,
    table_of,
)
from state_operator import Operator

from tidegate.state.subtask import aggregate, lookup, upsert

pytestmark = pytest.mark.usefixtures("reading")


def finish_epoch(operator: Operator, epoch: dict[str, Any], expected: dict[Any, Any]) -> None:
    assert as_dict(operator.scan()) == expected
    if epoch["merge"]:
        operator.merge(epoch["merge"], epoch["merged_subtask"])
    if epoch["lose_cache"]:
        shutil.rmtree(operator.workshop.cache, ignore_errors=True)


SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.sampled
@SETTINGS
@given(script=epochs(state_rows), mask=MASKS)
def test_upserts_and_deletes_leave_what_a_dictionary_would(script, mask, new_workshop) -> None:
    operator = Operator(new_workshop(), ROWS, mask)
    model: dict[Any, Any] = {}
    for epoch in script:
        specs = operator.begin(epoch["parallelism"])
        rows = {key_of(row): row for row in epoch["rows"]}
        parts = operator.split(table_of(rows.values(), UPSERTED))
        current = {}
        for subtask, part in parts.items():
            current |= as_dict(lookup(part.to_batches() * 2, specs[subtask]))
        assert current == {key: model[key] for key in rows if key in model}
        changed = {subtask: upsert(part.to_batches(), specs[subtask]) for subtask, part in parts.items()}
        shown, deleted = {}, set()
        for outcome in changed.values():
            shown |= as_dict(outcome.rows)
            deleted |= set(as_dict(outcome.deleted))
        assert deleted == {key for key, row in rows.items() if row[4] and key in model}
        assert shown == {key: tuple(map(plain, row[2:4])) for key, row in rows.items() if not row[4]}
        model = {key: value for key, value in (model | shown).items() if key not in deleted}
        operator.finish(specs, changed)
        finish_epoch(operator, epoch, model)


@pytest.mark.sampled
@SETTINGS
@given(script=epochs(input_rows), mask=MASKS)
def test_declared_aggregates_equal_those_of_all_rows_together(script, mask, new_workshop) -> None:
    operator = Operator(new_workshop(), AGGREGATES, mask)
    seen: dict[Any, list[Any]] = defaultdict(list)
    for epoch in script:
        specs = operator.begin(epoch["parallelism"])
        parts = operator.split(table_of(epoch["rows"], INPUT))
        for row in epoch["rows"]:
            seen[key_of(row)].append(dict(zip("vfs", row[2:], strict=True)))
        changed = {
            subtask: aggregate(part.to_batches(max_chunksize=3), specs[subtask]) for subtask, part in parts.items()
        }
        shown: dict[Any, Any] = {}
        for outcome in changed.values():
            shown |= as_dict(outcome.rows)
        expected = {key: expected_of(rows) for key, rows in seen.items()}
        assert shown == {key: expected[key] for key in map(key_of, epoch["rows"])}
        assert sum(outcome.rows_in for outcome in changed.values()) == len(epoch["rows"])
        operator.finish(specs, changed)
        finish_epoch(operator, epoch, expected)


def expected_of(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The aggregates of a key's rows by Spark's rules, written for the eye."""
    numbers = [row["v"] for row in rows if row["v"] is not None]
    floats = [row["f"] for row in rows if row["f"] is not None]
    texts = [row["s"] for row in rows if row["s"] is not None]
    answers = (
        len(rows),
        len(texts),
        sum(numbers) if numbers else None,
        sum(numbers) / len(numbers) if numbers else None,
        min(floats, key=above_all_nan, default=None),
        max(floats, key=above_all_nan, default=None),
        max(texts, default=None),
        extreme(rows, "v", min),
        extreme(rows, "f", max),
        extreme(rows, "v", min, of="f"),
        extreme(rows, "v", max, of="f"),
        len(set(map(plain, floats))),
        len(set(texts)),
        sorted(numbers)[:3],
        [f for f, _ in sorted(in_order(rows), key=lambda pair: (pair[1], above_all_nan(pair[0])))][:2],
        len(set(map(plain, floats))),
        sorted(numbers)[(len(numbers) + 1) // 2 - 1] if numbers else None,
        [min(numbers), max(numbers)] if numbers else None,
        [{"item": text, "count": -n} for n, text in sorted((-texts.count(text), text) for text in set(texts))][:2]
        if texts
        else None,
    )
    return tuple(plain(answer) for answer in answers)


def above_all_nan(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


def in_order(rows: list[dict[str, Any]]) -> list[tuple[float, str]]:
    return [(row["f"], row["s"]) for row in rows if row["f"] is not None and row["s"] is not None]


def extreme(rows: list[dict[str, Any]], by: str, choose: Any, of: str = "s") -> Any:
    orders = [above_all_nan(float(row[by])) for row in rows if row[by] is not None]
    if not orders:
        return None
    best = choose(orders)
    tied = [row[of] for row in rows if row[by] is not None and above_all_nan(float(row[by])) == best]
    return None if None in tied else min(tied, key=lambda value: above_all_nan(value) if of == "f" else value)
