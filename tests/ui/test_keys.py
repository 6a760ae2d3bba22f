"""A key of state is looked up on real files: its row, its history, and what is said when that cannot be read."""

import html
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from readings import HOSTILE
from state_operator import OPERATOR, PIPELINE, Operator, Workshop

from tidegate.pipeline.aggregates import count, sum_
from tidegate.state.layout import StateLayout

ARRIVED = pa.schema([("carrier", pa.string()), ("day", pa.date32()), ("delay", pa.int64())])
LAYOUT = StateLayout.of_aggregates(ARRIVED, ["carrier", "day"], [("flights", count()), ("delay", sum_("delay"))])
API, PAGE = f"/tidegate/api/v1/pipelines/{PIPELINE}/state/{OPERATOR}", f"/tidegate/pipelines/{PIPELINE}/state"
AA = "key=AA&key=2026-01-01"


@pytest.fixture
def kept(tmp_path: Path, store) -> Path:
    """Four checkpoints; the state of the first is not kept any more. Where their files are."""
    storage = tmp_path / "checkpoints"
    operator = Operator(Workshop(tmp_path, storage), LAYOUT)

    def arrive(*rows: tuple[str | None, str, int]) -> None:
        names, days, delays = zip(*rows, strict=True)
        days = pa.array(days, pa.string()).cast(pa.date32())
        operator.aggregate(pa.table({"carrier": list(names), "day": days, "delay": list(delays)}, ARRIVED))

    arrive((HOSTILE, "2026-01-01", 1))
    operator.record(store)
    arrive(("AA", "2026-01-01", 10), (None, "2026-01-02", 5))
    operator.record(store, subsume=[1])
    arrive(("AA", "2026-01-01", 20))
    operator.record(store)
    arrive(("UA", "2026-01-01", 7))
    operator.record(store)
    return storage


def row(flights: int, delay: int) -> dict[str, object]:
    return {"carrier": "AA", "day": "2026-01-01", "flights": flights, "delay": delay}


def test_without_a_key_there_are_its_columns(ask, kept) -> None:
    found = ask(API).json()
    assert found["key_columns"] == [{"name": "carrier", "type": "string"}, {"name": "day", "type": "date"}]
    assert (found["checkpoint_id"], found["key"], found["row"], found["history"]) == (4, None, None, [])
    shown = ask(PAGE).text
    assert '<label for="key-1">day <span class="muted">date</span></label>' in shown
    assert "The state has no row" not in shown


def test_a_key_has_its_row_at_a_checkpoint_and_at_those_that_are_kept(ask, kept) -> None:
    found = ask(f"{API}?{AA}").json()
    assert found["key"] == {"carrier": "AA", "day": "2026-01-01"}
    assert (found["row"], found["complete"]) == (row(2, 30), True)
    assert [(at["checkpoint_id"], at["row"], at["changed"]) for at in found["history"]] == [
        (4, row(2, 30), False),
        (3, row(2, 30), True),
        (2, row(1, 10), False),
    ]
    assert ask(f"{API}?{AA}&checkpoint=2").json()["row"] == row(1, 10)
    null = ask(f"{API}?key=&key=2026-01-02&null=0").json()
    assert (null["key"], null["row"]["flights"]) == ({"carrier": None, "day": "2026-01-02"}, 1)
    assert ask(f"{API}?key=ZZ&key=2026-01-01").json()["row"] is None
    shown = html.unescape(ask(f"{PAGE}?operator={OPERATOR}&{AA}").text)
    assert '"flights": 1, "delay": 10' in shown
    assert "The state has no row for this key." in ask(f"{PAGE}?key=ZZ&key=2026-01-01").text


def test_a_key_that_does_not_fit_is_a_sentence_and_no_error_of_the_server(ask, kept) -> None:
    for query, said in (
        ("key=AA", "1 value was given"),
        ("key=AA&key=soon", "'soon' cannot be a date"),
        ("key=&key=", "'' cannot be a date"),
        (f"key=AA&key={'9' * 999}", "cannot be a date"),
        ("&".join(["key=a"] * 64), "64 values were given"),
    ):
        answer = ask(f"{API}?{query}")
        assert answer.status_code == 400, query
        assert said in answer.json()["errors"][0]
        page = ask(f"{PAGE}?{query}")
        assert page.status_code == 200
        assert said in html.unescape(page.text)
        assert 'name="key"' in page.text
    for query in ("&".join(["key=a"] * 65), f"key={'a' * 1001}", f"{AA}&null=x", f"{AA}&checkpoint=0"):
        assert ask(f"{API}?{query}").status_code == 422, query
    for query in ("key=%00&key=2026-01-01", "key=2026-01-01&key=%00"):
        assert ask(f"{API}?{query}").status_code == 400, query


def test_a_hostile_key_is_text(ask, kept) -> None:
    hostile = f"key={quote(HOSTILE)}&key=2026-01-01"
    assert ask(f"{API}?{hostile}").json()["row"]["carrier"] == HOSTILE
    shown = ask(f"{PAGE}?{hostile}").text
    assert "<script>alert" not in shown
    assert shown.count(html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")) >= 1


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        (f"{AA}&checkpoint=1", 404, "is not kept any more"),
        (f"{AA}&checkpoint=9", 404, "has no checkpoint 9"),
    ],
)
def test_a_checkpoint_without_state_says_so(ask, kept, query, status, said) -> None:
    answer = ask(f"{API}?{query}")
    assert answer.status_code == status
    assert said in answer.text


def test_an_operator_that_there_is_not(ask, kept) -> None:
    answer = ask(f"{API}s?{AA}")
    assert answer.status_code == 404
    assert f"Those with keyed state: {OPERATOR}." in answer.text


def test_where_the_storage_is_out_of_reach_the_page_says_so_and_what_to_do(ask, kept) -> None:
    kept.rename(kept.with_name("elsewhere"))
    assert ask(f"{API}?{AA}").status_code == 404
    page = ask(f"{PAGE}?{AA}")
    assert page.status_code == 200
    assert f"tidegate state {PIPELINE} {OPERATOR}" in page.text
    assert "by subtask" in page.text


def test_a_damaged_file_spoils_only_the_checkpoints_that_have_it(ask, kept) -> None:
    ask(f"{API}?{AA}")  # the rows of small files stay in memory
    (newest,) = (kept / PIPELINE / "chk-3" / OPERATOR).iterdir()
    newest.write_bytes(b"cut off")
    from tidegate.state import opening

    opening._in_memory.clear()
    history = ask(f"{API}?{AA}&checkpoint=2").json()["history"]
    assert [(at["row"] is None, at["problem"] is None) for at in history] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert "is damaged" in history[0]["problem"]
    assert not any(at["changed"] for at in history)
