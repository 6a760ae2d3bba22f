"""Which verdicts carry over to a checkpoint with the same files, and which never do."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from cases import for_each

from tidegate import FileSource, ParquetSink, Pipeline, count, expect, max_, suite
from tidegate.pipeline.expectations import Expectation
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.steady import validation_targets
from tidegate.protocol.facts.names import Target, operator_of_sink
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.schema.expiry import TTL, RecordedTtl
from tidegate.protocol.steps.carried_verdicts import basis_of, carry_over, founded

NOT_NULL = expect("column_values_to_not_be_null", column="k")
CURRENT, STATE, CHECK = (Target.parse(name) for name in ("sink:current", "state:op", "check:both"))
Subtasks = Mapping[SubtaskId, SubtaskRecord]


def definition(*rules: Expectation, where: str = "tables/current", ttl: str | None = None, **aggregates: Any) -> Any:
    """What is judged of one table, of the state behind it and of a check on both tables, by the same expectations."""
    judged = suite("rules", *(rules or (NOT_NULL,)))
    pipeline = Pipeline("p")
    rows = pipeline.source("rows", FileSource("landing", format="parquet", schema="k bigint, v bigint"))
    aggregates = aggregates or {"n": count()}
    op = rows.key_by("k").aggregate("op", expect=judged, ttl=ttl, **aggregates)
    op.sink("current", ParquetSink(where, mode="latest"), expect=judged)
    op.sink("changes", ParquetSink("tables/changes"))
    pipeline.check("both", sinks=["current", "changes"], expect=judged)(lambda current, changes: current)
    return validation_targets(compile_graph(pipeline))


def staged(*names: str, checksum: str = "0", kind: HandleKind = HandleKind.STAGED, **details: Any) -> Subtasks:
    """One file of each subtask of the table, or of the operator."""
    operator = operator_of_sink("current") if kind is HandleKind.STAGED else "op"
    return {
        (subtask := SubtaskId(operator, index)): SubtaskRecord(
            subtask, 1, snapshot=Snapshot((StateHandle(name, kind, 1, 1, checksum, 1, details=details),))
        )
        for index, name in enumerate(names)
    }


def good(target: Target = CURRENT) -> Verdict:
    return Verdict(target, "rules", True, 1, 0, ({"type": NOT_NULL.type, "success": True},), docs_path="p/chk-4")


def carried(before: Any, then: Subtasks, now: Any, files: Subtasks, verdict: Verdict | None = None) -> list[Verdict]:
    """What carries over to a checkpoint from number 4."""
    verdict = verdict or good()
    return carry_over(now, files, founded(before, then, [verdict]), 4)


def test_the_verdict_on_files_that_are_the_same_carries_over_and_says_from_where() -> None:
    known = definition()
    (verdict,) = carried(known, staged("a", "b"), definition(), staged("a", "b"))
    assert verdict == replace(good(), carried_from=4, basis=verdict.basis)
    (again,) = carry_over(known, staged("a", "b"), [verdict], 9)
    assert again == verdict  # still from 4, and good for the next one


@for_each(
    "files",
    [
        staged("a", "c"),
        staged("a"),
        staged("a", "b", "c"),
        staged("b", "a"),
        staged("a", "b", checksum="1"),
        {},
    ],
    ids=["another", "fewer", "more", "exchanged", "content", "none"],
)
def test_it_does_not_if_any_file_differs(files: Subtasks) -> None:
    assert carried(definition(), staged("a", "b"), definition(), files) == []


@for_each(
    "now",
    [
        definition(expect("column_values_to_not_be_null", column="n")),
        definition(expect("column_values_to_not_be_null", column="k", mostly=0.9)),
        definition(expect("column_values_to_be_unique", column="k")),
        definition(NOT_NULL, expect("column_values_to_be_unique", column="k")),
        definition(where="tables/elsewhere"),
    ],
    ids=["column", "argument", "type", "more", "table"],
)
def test_it_does_not_if_the_expectations_or_the_table_differ(now: Any) -> None:
    assert carried(definition(), staged("a"), now, staged("a")) == []


@for_each(
    ("before", "now"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        ("1", 1),
        (date(2013, 1, 1), date(2013, 1, 2)),
        (datetime(2013, 1, 1), datetime(2013, 1, 1, tzinfo=UTC)),
    ],
)
def test_any_two_values_of_an_argument_differ(before: Any, now: Any) -> None:
    then, later = (definition(expect("column_values_to_be_between", column="k", min_value=v)) for v in (before, now))
    assert carried(then, staged("a"), then, staged("a"))
    assert carried(then, staged("a"), later, staged("a")) == []


@for_each(
    "verdict",
    [replace(good(), success=False, failed=1), replace(good(), success=None, error="it broke")],
    ids=["failed", "not judged"],
)
def test_only_a_good_one_does(verdict: Verdict) -> None:
    """Also if a person has approved it; and whatever was written down as its basis."""
    known, files = definition(), staged("a")
    assert carried(known, files, known, files, verdict) == []
    basis = founded(known, files, [good()])[0].basis
    assert basis is not None
    assert carry_over(known, files, [replace(verdict, basis=basis)], 4) == []


class Unknown:
    """Nobody knows when two of these are equal."""


@for_each(
    "rule",
    [
        expect("column_values_to_be_between", column="k", min_value={"$PARAMETER": "now()"}),
        expect("column_values_to_be_in_set", column="k", value_set=[{"$PARAMETER": "today"}]),
        expect("column_values_to_not_be_null", column="k", row_condition="v > current_date()"),
        expect("column_values_to_not_be_null", column="k", row_condition=Unknown()),
        expect("column_values_to_be_between", column="k", min_value=Unknown()),
        Expectation("unexpected_rows_expectation", (("unexpected_rows_query", "SELECT * FROM other"),)),
        expect("table_row_count_to_equal_other_table", other_table_name="other"),
        expect("query_results_to_match_comparison", base_query="SELECT 1"),
        expect("column_values_to_be_increasing", column="k"),
        expect("column_values_to_be_prime", column="k"),
    ],
    ids=lambda rule: rule.type,
)
def test_an_expectation_that_may_depend_on_more_than_the_rows_never_does(rule: Expectation) -> None:
    known = definition(NOT_NULL, rule)
    assert carried(known, staged("a"), known, staged("a")) == []


def test_a_check_never_does_because_its_query_may_read_anything() -> None:
    known = definition()
    assert carried(known, staged("a"), known, staged("a"), good(CHECK)) == []


def test_state_does_unless_its_rows_expire() -> None:
    runs, known = staged("a", kind=HandleKind.RUN), definition()
    assert [verdict.target for verdict in carried(known, runs, known, runs, good(STATE))] == [STATE]
    mortal = definition(ttl="30 d")
    assert carried(mortal, runs, mortal, runs, good(STATE)) == []
    assert carried(known, runs, definition(m=max_("v")), runs, good(STATE)) == []


def test_state_does_not_while_its_files_say_that_rows_expire() -> None:
    known = definition()
    (state,) = (judged for judged in known if judged.target == STATE)
    assert basis_of(state, staged("a", kind=HandleKind.RUN)) is not None
    recorded = {TTL: RecordedTtl("c", 1, processing_time=True).to_json()}
    assert basis_of(state, staged("a", kind=HandleKind.RUN, **recorded)) is None
