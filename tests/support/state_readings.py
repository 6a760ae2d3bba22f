"""What people read of an operator's state and of its changes, held against a dictionary."""

import math
import shutil
from itertools import pairwise
from typing import Any

import pyarrow as pa
from state_epochs import UPSERTED, as_dict, key_of, plain, table_of
from state_operator import Operator

from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles, open_state

ROUTES = StateLayout.of_rows(pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int64())]), ["a", "b"])


def routes(*rows: tuple[Any, ...]) -> pa.Table:
    return table_of(rows, pa.schema([*ROUTES.rows, ("_delete", pa.bool_())]))


def files_of(operator: Operator, state: Any = None, since: Any = None) -> StateFiles:
    files = StateFiles(str(operator.workshop.storage), str(operator.workshop.cache), state or operator.state(), since)
    assert StateFiles.from_json(files.to_json()) == files  # so does it reach Spark
    return files


def read(files: StateFiles, key: Any = None) -> pa.Table:
    """Every part by itself, as several machines would."""
    reading = open_state(files, key)
    assert key is None or len(reading.parts) == 1
    batches = [batch for part in reading.parts for batch in part.batches()]
    return pa.Table.from_batches(batches, reading.schema)


def changes_of(table: pa.Table) -> tuple[dict[Any, Any], set[Any]]:
    """The upserted rows by key, and the deleted keys."""
    upserted, deleted = (table.filter(pa.compute.equal(table["_change"], what)) for what in ("upsert", "delete"))
    assert len(upserted) + len(deleted) == len(table)
    gone = as_dict(deleted.drop_columns("_change"))
    assert all(value is None for row in gone.values() for value in row)
    return as_dict(upserted.drop_columns("_change")), set(gone)


def replayed(before: dict[Any, Any], after: dict[Any, Any]) -> tuple[dict[Any, Any], set[Any]]:
    return {key: row for key, row in after.items() if before.get(key) != row}, set(before) - set(after)


def check_history(operator: Operator, history: list[tuple[Any, dict[Any, Any]]], asked: set[Any]) -> None:
    """Each checkpoint, each key at each, and each pair of neighbours and of the first and the last, both ways."""
    for state, model in history:
        assert as_dict(read(files_of(operator, state))) == model
        for key in asked:
            row = {key: model[key]} if key in model else {}
            assert as_dict(read(files_of(operator, state), unplain(key))) == row
    pairs = [*pairwise(history), (history[0], history[-1]), (history[-1], history[0])]
    for (before, old), (after, new) in pairs:
        found = read(files_of(operator, after, before))
        assert changes_of(found) == replayed(old, new)
        for key in list(asked)[:3]:
            of_key = replayed({k: v for k, v in old.items() if k == key}, {k: v for k, v in new.items() if k == key})
            assert changes_of(read(files_of(operator, after, before), unplain(key))) == of_key


def unplain(key: tuple[Any, ...]) -> list[Any]:
    return [math.nan if value == "NaN" else value for value in key]


def check_script(script: Any, operator: Operator) -> None:
    model: dict[Any, Any] = {}
    history, asked = [], {(None, None), ("a", 1.5)}
    for epoch in script:
        rows = {key_of(row): row for row in epoch["rows"]}
        operator.upsert(table_of(rows.values(), UPSERTED), epoch["parallelism"])
        model = model | {key: tuple(map(plain, row[2:4])) for key, row in rows.items()}
        model = {key: row for key, row in model.items() if not (key in rows and rows[key][4])}
        if operator.state().runs:
            history.append((operator.state(), model))
        asked |= set(list(rows)[:2])
        if epoch["merge"]:
            operator.merge(epoch["merge"], epoch["merged_subtask"])
        if epoch["lose_cache"]:
            shutil.rmtree(operator.workshop.cache, ignore_errors=True)
    if history:
        check_history(operator, history, asked)
