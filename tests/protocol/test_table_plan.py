"""What becomes of a table that is appended to: a case for each kind of change of its columns."""

import re

from cases import for_each

from own_connectors.sqlite_sink import SqliteSink
from tidegate import IcebergSink, ParquetSink, PostgresSink
from tidegate.coordination.recovery.change_plan import _kind_of_table
from tidegate.protocol.schema.state_schema import StateAggregate, StateColumn, StateSchema
from tidegate.protocol.schema.table_plan import TableKind, TableVerdict, changed_rows, changed_state, plan_table

AS_BEFORE, OPTION, PARTS = TableVerdict.AS_BEFORE, TableVerdict.WITH_OPTION, TableVerdict.NOT_AS_A_WHOLE


@for_each(
    ("before", "now", "verdict", "said"),
    [
        ("k string, v int", "k string, v int", AS_BEFORE, ""),
        ("k string, v int", "k STRING,  v INTEGER", AS_BEFORE, ""),
        ("k string, v int", "k string", AS_BEFORE, "'v', which is null in new ones"),
        ("k string", "k string, v int", OPTION, "do not have 'v': read the table in Spark with the option mergeSchema"),
        ("k string, v int", "k string, v bigint", OPTION, r"spark.read.schema\(…\).*and with mergeSchema, Spark fails"),
        ("v int, w int", "v bigint, x int", OPTION, "the narrower type of 'v'"),
        ("v date", "v timestamp_ntz", OPTION, "narrower type of 'v'"),
        ("v decimal(5, 2)", "v decimal(12,3)", OPTION, "narrower type of 'v'"),
        ("v string", "v int", PARTS, "no reader reads both as one table.*another directory"),
        ("v bigint", "v int", PARTS, "another type"),
        (None, "v int", AS_BEFORE, ""),
    ],
)
def test_the_rows_of_a_source(before, now, verdict, said):
    table = plan_table([changed_rows(before, now)], is_exact=True)
    assert table.verdict is verdict
    assert re.search(said, table.advice) if said else table.advice == ""


@for_each(
    ("before", "now", "verdict", "said"),
    [
        ("k string, v int", "k string, v int", AS_BEFORE, ""),
        ("k string, v int", "k string", AS_BEFORE, "the table keeps 'v', which is null in new rows"),
        ("k string", "k string, v int", AS_BEFORE, "the table gets 'v', which is null in earlier rows"),
        ("v int", "v bigint", AS_BEFORE, "the table's 'v' gets the wider type.*read as before"),
        ("v string", "v int", PARTS, "the next checkpoint is refused: cast it"),
    ],
)
def test_a_table_whose_columns_follow_the_rows(before, now, verdict, said):
    table = plan_table([changed_rows(before, now)], is_exact=True, kind=TableKind.EVOLVES)
    assert table.verdict is verdict
    assert re.search(said, table.advice) if said else table.advice == ""


@for_each(
    ("before", "now", "said"),
    [
        ("k string, v int", "k string, v int", ""),
        ("k string, v int", "k string", "the table keeps 'v', which has its default in new rows"),
        ("k string", "k string, v int", "without the column 'v' refuses the next checkpoint: add .* columns="),
        ("v int", "v bigint", "'v' keeps its type: .* Alter the column"),
        ("v string", "v int", "'v' keeps its type: .* cast the rows"),
    ],
)
def test_a_table_whose_columns_the_user_defines(before, now, said):
    table = plan_table([changed_rows(before, now)], is_exact=True, kind=TableKind.FIXED)
    assert table.verdict is AS_BEFORE
    assert re.search(said, table.advice) if said else table.advice == ""


@for_each(
    ("before", "now", "said"),
    [
        ("k string, v int", "k string, v int", ""),
        ("k string, v int", "k string", "new rows have no column 'v'. The sink does not declare"),
        ("k string", "k string, v int", "new rows have a column 'v'. The sink does not declare the effect"),
        ("v int", "v bigint", "'v' has another type in new rows. The sink does not declare"),
    ],
)
def test_a_table_of_a_sink_that_says_nothing_of_it(before, now, said):
    table = plan_table([changed_rows(before, now)], is_exact=True, kind=TableKind.UNKNOWN)
    assert table.verdict is AS_BEFORE
    assert re.search(said, table.advice) if said else table.advice == ""


@for_each(
    ("sink", "kind"),
    [
        (ParquetSink("tables/t"), TableKind.FILES),
        (IcebergSink("db.t"), TableKind.EVOLVES),
        (PostgresSink("t"), TableKind.FIXED),
        (PostgresSink("t", mode="upsert", key="k"), TableKind.FIXED),
        (SqliteSink("lite.db", "t"), TableKind.UNKNOWN),
    ],
)
def test_a_sink_tells_whose_the_columns_of_its_table_are(sink, kind):
    assert _kind_of_table(sink) is kind


def test_the_state_of_an_operator_by_the_names_that_people_see():
    key = StateColumn("k", "string", "k")
    most = StateAggregate("most", "max", "v", None, ("_most_max",))
    high = StateAggregate("high", "max", "v", None, ("_most_max",))
    stored = StateSchema((key,), (StateColumn("_most_max", "int", "_most_max"),), (most,))
    wider = StateSchema((key,), (StateColumn("_most_max", "bigint", "_most_max"),), (most,))
    assert changed_state(stored, wider) == {}, "it is not shown"
    shown, is_wider = (
        StateSchema((key,), (StateColumn("most", kind, "most"),), (most._replace(accumulators=("most",)),))
        for kind in ("array<int>", "array<bigint>")
    )
    assert changed_state(shown, is_wider) == {"most": "widened"}
    assert changed_state(stored, stored) == {}
    assert changed_state(stored, StateSchema((key,), (), ())) == {"most": "dropped"}
    renamed = StateSchema((key,), (StateColumn("_most_max", "int", "_most_max"),), (high,))
    assert changed_state(stored, renamed) == {"high": "renamed"}
    more = StateSchema((key,), (*stored.values, StateColumn("n", "bigint", "n#1")), (most,))
    assert changed_state(stored, more) == {"n": "new"}


def test_what_code_in_between_decides_is_said_with_a_condition():
    widened = changed_rows("v int", "v bigint")
    assert "'v', if it reaches the table" in plan_table([widened], is_exact=False).advice
    assert "if it reaches" not in plan_table([widened], is_exact=True).advice
