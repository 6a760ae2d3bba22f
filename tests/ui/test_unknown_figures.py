"""What a page does not know it does not show as nothing: rows that a source has not counted, sizes before the end, the
graph of a first run. And each tab says how the pipeline stands."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from shown_pipelines import ShownPipeline
from worlds import MemoryStorage

from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.names import handed_over
from tidegate.protocol.facts.records import Acknowledgement, SubtaskId
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.ui.shell import TABS

Page = Callable[..., str]
NAME = "flight_delays"


class Uncounted(ShownPipeline):
    """Its sources report no rows, as those of a scheduled run."""

    def _report(self, task: SnapshotTask, key: SubtaskId) -> Acknowledgement:
        found = super()._report(task, key)
        if key.operator_id in ("flights", "airlines"):
            return replace(found, metrics=replace(found.metrics, rows_out=-1))
        return found


@pytest.fixture
def shown(store: PostgresCheckpointStore) -> ShownPipeline:
    return Uncounted(store, MemoryStorage(), ago=timedelta(minutes=5))


@pytest.fixture
def page(get: Any, token: Any) -> Page:
    def page_(path: str = "") -> str:
        answer: httpx.Response = get(f"/tidegate/pipelines/{NAME}{path}", token=token("admin"))
        assert answer.status_code == 200
        return answer.text

    return page_


def test_rows_that_a_source_has_not_counted_are_not_none(shown: ShownPipeline, page: Page, ask: Any) -> None:
    shown.complete()
    assert page().count("rows not counted") == 2  # a box for each source
    assert '<span class="muted">not counted</span>' in page("/checkpoints/1")
    assert "0 rows read" not in page() + page("/checkpoints/1")
    tasks = ask(f"/tidegate/api/v1/pipelines/{NAME}/checkpoints/1").json()["tasks"]
    assert (tasks["flights"]["rows_out"], tasks["flights"]["rows_in"]) == (-1, -1)
    assert tasks["late_flights-sink"]["rows_out"] > 0


def test_a_first_run_has_no_size_and_no_arrows_yet_and_says_why(shown: ShownPipeline, page: Page, ask: Any) -> None:
    shown.snapshot(shown.trigger(), without=[SubtaskId("carriers", 2)])
    overview = page()
    assert "Arrows appear with the first completed checkpoint" in overview
    assert "<dt>State</dt><dd>–</dd>" in overview
    assert "0 B" not in page("/history")
    (line,) = ask(f"/tidegate/api/v1/pipelines/{NAME}/history").json()["history"]
    assert (line["checkpointed_size"], line["state_size"]) == (-1, -1)
    shown.snapshot(1)
    shown.judge(1)
    shown.finish(1)
    (line,) = ask(f"/tidegate/api/v1/pipelines/{NAME}/history").json()["history"]
    assert line["checkpointed_size"] > 0


def test_each_tab_says_how_the_pipeline_stands(shown: ShownPipeline, page: Page) -> None:
    shown.complete()
    shown.coordinator.operations.control.suspend()
    for path, _ in TABS:
        assert '<span class="pill warn">SUSPENDED</span>' in page(f"/{path}" if path else ""), path


def test_the_history_begins_on_a_day(shown: ShownPipeline, page: Page) -> None:
    shown.complete()
    today, tomorrow = datetime.now(UTC) - timedelta(minutes=10), datetime.now(UTC) + timedelta(days=1)
    assert 'id="chk-1"' in page(f"/history?since={today:%Y-%m-%d}")
    assert 'id="chk-1"' not in page(f"/history?since={tomorrow:%Y-%m-%d}")
    assert 'id="chk-1"' in page("/history?since=nonsense")


def test_the_audit_names_the_checkpoint_that_came_of_a_request(shown: ShownPipeline, page: Page, ask: Any) -> None:
    shown.complete()
    with shown.store.transaction(NAME) as tx:
        tx.begin_region(datetime.now(UTC))
    by_region, nobody = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    who = Actor(ActorKind.AIRFLOW_USER, "ada", "10.0.0.1")
    for request_id in (by_region, nobody):
        shown.coordinator.operations.request(request_id, who)
    shown.trigger(handed_over(by_region))
    audited = ask(f"/tidegate/api/v1/pipelines/{NAME}/audit").json()["audit"]
    assert {one["request_id"]: one["checkpoint"] for one in audited} == {by_region: 2, nobody: None}
    assert f'/pipelines/{NAME}/checkpoints/2">2</a>' in page("/audit")
