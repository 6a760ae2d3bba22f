"""Rows that a table of upserts keeps when it is given all rows, as they are nobody's."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from commits import Attempt
from marts import Server

from tidegate import PostgresSink
from tidegate.ports import StageContext
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import WHOLE

Give = Callable[[int, dict[str, int]], None]
SHOWN = "SELECT k, v FROM totals ORDER BY k"


@pytest.fixture
def sink(there: Server, home: Any) -> PostgresSink:
    made = PostgresSink("totals", mode="upsert", key="k", connection="marts").placed("mart", "totals")
    made.mark(Owner("mart", "totals", "here"))
    return made


@pytest.fixture
def give(sink: PostgresSink) -> Give:
    """A checkpoint with these rows, which are all that the state has."""

    def give(id_: int, rows: dict[str, int]) -> None:
        table = pa.table({"k": pa.array(rows, pa.string()), "v": pa.array(rows.values(), pa.int64())})
        handles = sink.writer().stage(table, StageContext(id_, 0, 1, "rows"))
        sink.commit(id_, [replace(handle, details={WHOLE: True}) for handle in handles], Attempt())

    return give


def test_rows_of_others_stay_when_a_sink_comes_to_their_table(there: Server, give: Give) -> None:
    there.do("CREATE TABLE totals (k text PRIMARY KEY, v bigint)", "INSERT INTO totals VALUES ('x', 9), ('a', 9)")
    give(1, {"a": 1})
    assert there.rows(SHOWN) == [("a", 1), ("x", 9)]


def test_a_row_without_a_key_is_nobodys(there: Server, give: Give) -> None:
    there.do("CREATE TABLE totals (k text UNIQUE, v bigint)")
    give(1, {"a": 1})
    there.do("INSERT INTO totals VALUES (NULL, 9)")
    give(2, {"b": 1})
    assert there.rows(SHOWN) == [("b", 1), (None, 9)]
