"""What a table of upserts makes of keys that are gone, and of being given all rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from commits import Attempt
from marts import Server

from tidegate import PostgresSink
from tidegate.ports import Branch, StageContext
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import DELETES, WHOLE

Give = Callable[..., None]
SHOWN = "SELECT k, v FROM totals ORDER BY k"


@pytest.fixture
def sink(there: Server, home: Any) -> PostgresSink:
    made = PostgresSink("totals", mode="upsert", key="k", connection="marts").placed("mart", "totals")
    made.mark(Owner("mart", "totals", "here"))
    return made


@pytest.fixture
def give(sink: PostgresSink) -> Give:
    """A checkpoint with these rows, keys that are gone among them, or all rows."""

    def staged(id_: int, name: str, table: pa.Table, **details: Any) -> list[StateHandle]:
        handles = sink.writer().stage(table, StageContext(id_, 0, 1, name))
        return [replace(handle, details=details) for handle in handles]

    def give(id_: int, rows: dict[str, int], gone: str = "", whole: bool = False) -> None:
        table = rows_of(list(rows), list(rows.values()))
        handles = staged(id_, "rows", table, **({WHOLE: True} if whole else {})) if rows or whole else []
        if gone:
            keys = rows_of(list(gone), [None] * len(gone)).append_column("_delete", pa.array([True] * len(gone)))
            handles += staged(id_, "gone", keys, **{DELETES: True})
        sink.commit(id_, handles, Attempt())

    return give


def rows_of(keys: list[str], values: list[Any]) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())})


def test_keys_that_are_gone_leave_the_table(there: Server, give: Give) -> None:
    give(1, {"a": 1, "b": 2})
    give(2, {"b": 3, "c": 4}, gone="a")
    assert there.rows(SHOWN) == [("b", 3), ("c", 4)]
    give(3, {}, gone="bc")
    assert there.rows(SHOWN) == []


def test_all_rows_take_the_place_of_those_that_the_sink_had(there: Server, sink: PostgresSink, give: Give) -> None:
    give(1, {"a": 1, "b": 2})
    give(2, {"b": 2, "c": 3}, whole=True)
    assert there.rows(SHOWN) == [("b", 2), ("c", 3)]
    sink.rewind(1, Branch(((0, 1),)), (), Attempt())
    assert there.rows(SHOWN) == [("a", 1), ("b", 2)]
    sink.rewind(2, Branch(((0, 2),)), (), Attempt())
    assert there.rows(SHOWN) == [("b", 2), ("c", 3)]
    give(3, {}, whole=True)
    assert there.rows(SHOWN) == []
    sink.rewind(2, Branch(((0, 2),)), (), Attempt())
    assert there.rows(SHOWN) == [("b", 2), ("c", 3)]


def test_rows_of_others_stay_when_a_sink_comes_to_their_table(there: Server, give: Give) -> None:
    there.do("CREATE TABLE totals (k text PRIMARY KEY, v bigint)", "INSERT INTO totals VALUES ('x', 9), ('a', 9)")
    give(1, {"a": 1}, whole=True)
    assert there.rows(SHOWN) == [("a", 1), ("x", 9)]


def test_a_row_without_a_key_is_nobodys(there: Server, give: Give) -> None:
    there.do("CREATE TABLE totals (k text UNIQUE, v bigint)")
    give(1, {"a": 1})
    there.do("INSERT INTO totals VALUES (NULL, 9)")
    give(2, {"b": 1}, whole=True)
    assert there.rows(SHOWN) == [("b", 1), (None, 9)]
