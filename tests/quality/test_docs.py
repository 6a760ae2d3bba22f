"""The report of a checkpoint as a page: real results of Great Expectations, rendered, written and removed."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from records import record

from tidegate.pipeline.expectations import expect, suite
from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.quality import docs as docs_module
from tidegate.quality.docs import build_docs, remove_old_docs
from tidegate.quality.page import Section
from tidegate.quality.validator import GreatExpectationsValidator

pytestmark = pytest.mark.spark

Judge = Callable[..., Verdict]
ATTACK = "<script>alert('x')</script>"


class Outline(HTMLParser):
    """Every tag, every address and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def judged(
    spark: SparkSession, graph_of: Callable[..., Graph], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Verdict, Path]:
    """A verdict on hostile data and the page built for it."""
    hostile = spark.sql("select * from values ('AA', :it), ('BB', 'plain') as t(carrier, remark)", args={"it": ATTACK})
    rules = suite(
        "carriers",
        expect("column_values_to_be_in_set", column="remark", value_set=["plain"]),
        expect("column_distinct_values_to_be_in_set", column="remark", value_set=["plain"]),
        expect("column_values_to_match_regex", column="remark", regex=f"^(?<!{ATTACK})plain$"),
        expect("column_values_to_match_regex", column="remark", regex="["),
        expect("column_values_to_not_be_null", column="missing"),
        expect("table_row_count_to_be_between", min_value=1),
    )
    docs = tmp_path_factory.mktemp("docs")
    validator = GreatExpectationsValidator(graph_of(sink=rules), lambda target, *_: hostile, docs)
    (verdict,) = validator.validate(record(7, pipeline_id="flight_delays"), {})
    assert verdict.docs_path == "flight_delays/chk-7/index.html"
    return verdict, docs / verdict.docs_path


@pytest.fixture
def page(judged: tuple[Verdict, Path]) -> str:
    return judged[1].read_text()


def test_the_page_says_what_failed_on_which_rows(page: str) -> None:
    text = " ".join(Outline(page).text.split())
    assert "flight_delays, checkpoint 7" in text
    assert "values must belong to this set: plain" in text
    assert "1 unexpected values found. 50% of 2 total rows." in text
    assert f"remark expect_column_values_to_be_in_set: 1 of 1 not as expected carrier remark AA {ATTACK}" in text
    assert f"remark expect_column_distinct_values_to_be_in_set: 1 of 1 not as expected value {ATTACK}" in text
    assert "names column 'missing', which sink:carriers does not have. Its columns are: carrier, remark." in text


def test_the_page_needs_no_network_no_script_and_no_second_file(judged: tuple[Verdict, Path], page: str) -> None:
    outline = Outline(page)
    assert [path.name for path in judged[1].parent.iterdir()] == ["index.html"]
    assert not outline.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert all(address.startswith("#") for address in outline.addresses)
    assert not re.search(r"https?://|url\(|@import", page)
    assert len(page) < 50_000


def test_values_from_the_data_stay_text(page: str) -> None:
    assert ATTACK not in page
    assert ATTACK in Outline(page).text


def test_no_traceback_and_no_path_of_the_machine_is_shown(judged: tuple[Verdict, Path], page: str) -> None:
    assert judged[0].success is None
    assert "site-packages" not in page
    assert "Traceback" not in page


def test_a_repeat_replaces_the_page_and_leaves_nothing_else(docs: Path, checkpoint: CheckpointRecord) -> None:
    for error in ("first", "second"):
        build_docs(docs, checkpoint, [Section(Verdict(Target.parse("sink:a"), "rules", None, 0, 0, error=error))])
    assert [path.relative_to(docs).as_posix() for path in docs.rglob("*") if path.is_file()] == [
        "flight_delays/chk-7/index.html"
    ]
    assert "second" in (docs / "flight_delays/chk-7/index.html").read_text()


def test_a_page_shows_that_it_waits_for_approval_if_all_that_failed_are_rules_that_hold(
    judge: Judge, docs: Path, spark: SparkSession
) -> None:
    rows = spark.sql("select 'AA' as carrier, 7 as flights")
    few = {"column": "flights", "max_value": 5}
    holds = expect("column_values_to_be_between", **few, on_failure="hold", hold_for="90 min")
    for rules, said in (
        ([holds], "Waiting for manual approval. Every failed rule is one that holds, so the checkpoint is not aborted."
         " It waits at most 1.5 h for approval or rejection"),
        ([holds, expect("column_values_to_be_in_set", column="carrier", value_set=["UA"])], None),
        ([expect("column_values_to_be_between", column="flights", max_value=9, on_failure="hold", hold_for="1 h")],
         None),
    ):  # fmt: skip
        path = judge(rows, suite("few", *rules)).docs_path
        text = " ".join(Outline((docs / str(path)).read_text()).text.split())
        assert ("Waiting for manual approval" in text) is (said is not None)
        assert said is None or said in text


def test_a_page_that_cannot_be_written_leaves_the_old_one_whole(
    docs: Path, checkpoint: CheckpointRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [Section(Verdict(Target.parse("sink:a"), "rules", None, 0, 0, error="the old one"))]
    path = docs / build_docs(docs, checkpoint, old)
    before = path.read_text()
    monkeypatch.setattr(docs_module, "render", lambda checkpoint, sections, hold_for: "\ud800")  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        build_docs(docs, checkpoint, old)
    assert path.read_text() == before
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]


def test_a_report_that_cannot_be_written_does_not_change_the_verdict(
    spark: SparkSession, judge: Judge, docs: Path
) -> None:
    docs.write_text("a file where the directory should be")
    verdict = judge(
        spark.sql("select 'AA' as carrier"), suite("s", expect("column_values_to_not_be_null", column="carrier"))
    )
    assert (verdict.success, verdict.docs_path) == (True, None)


def test_the_oldest_reports_are_removed_by_number_and_nothing_else(docs: Path) -> None:
    for checkpoint_id in (2, 9, 10, 11):
        build_docs(
            docs, record(checkpoint_id), [Section(Verdict(Target.parse("sink:a"), "rules", None, 0, 0, error="e"))]
        )
    (docs / "p" / "notes").mkdir()
    build_docs(
        docs, record(1, pipeline_id="other"), [Section(Verdict(Target.parse("sink:a"), "rules", None, 0, 0, error="e"))]
    )
    assert remove_old_docs(docs, "p", keep=2) == [9, 2]
    assert sorted(path.name for path in (docs / "p").iterdir()) == ["chk-10", "chk-11", "notes"]
    assert (docs / "other" / "chk-1" / "index.html").exists()


def test_a_verdict_that_was_carried_over_says_from_where_and_is_not_rendered_anew(
    spark: SparkSession, graph_of: Callable[..., Graph], docs: Path
) -> None:
    rules = suite("carriers", expect("column_values_to_not_be_null", column="carrier"))
    rows = spark.sql("select 'AA' as carrier")
    validator = GreatExpectationsValidator(graph_of(sink=rules, state=rules), lambda *_: rows, docs)
    state, sink = validator.validate(record(7, pipeline_id="flight_delays"), {})
    carried = replace(sink, carried_from=7)
    (judged,) = validator.validate(record(8, pipeline_id="flight_delays"), {}, [carried])
    assert judged == replace(state, docs_path="flight_delays/chk-8/index.html")
    text = " ".join(Outline((docs / "flight_delays/chk-8/index.html").read_text()).text.split())
    assert "passed, carried over from checkpoint 7" in text
    assert "those of checkpoint 7, which met all 1. They were not validated again." in text
    assert validator.validate(record(9, pipeline_id="flight_delays"), {}, [carried, state]) == []
    assert not (docs / "flight_delays/chk-9").exists()
