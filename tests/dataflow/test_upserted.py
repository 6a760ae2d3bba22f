"""What a sink of upserts has of a state, and of which subtasks a checkpoint stages anything."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mirrors import Mirror
from worlds import SplitSource

from tidegate import Pipeline, count
from tidegate.clock import SystemClock
from tidegate.dataflow.elements import Aligned
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution, build_chains
from tidegate.dataflow.reports import Report
from tidegate.dataflow.subtask_snapshots import acknowledgements
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.steps.sink_marks import without_mark

NEW_RUN = StateHandle("new", HandleKind.RUN, 1, 1, "", 1)
MERGED = {"column": "_updated", "after": 10, "processing_time": True, "removed": 1, "removed_to": 40}


class Orders(SplitSource):
    schema = "customer string"


@dataclass
class Shop:
    """An operator with a mirror, of which two subtasks have some state each, unless a test says otherwise."""

    root: Path
    parallelism: int = 2
    completed: dict[SubtaskId, Snapshot] = field(default_factory=dict)

    def execution(self) -> Execution:
        pipeline = Pipeline("shop", parallelism=self.parallelism, max_parallelism=8)
        counts = pipeline.source("orders", Orders()).key_by("customer").aggregate("counts", n=count())
        counts.sink("mirror", Mirror(str(self.root)))
        chain = next(each for each in build_chains(compile_graph(pipeline), SystemClock()) if each.name == "counts")
        return Execution(chain, aligned=Aligned(1, 0, 0, 0))

    def plan(self, **given: Any) -> ExecutionPlan:
        ids = (SubtaskId(name, index) for name in ("counts", "mirror-sink") for index in range(self.parallelism))
        return ExecutionPlan(2, self.parallelism, dict.fromkeys(ids, 1), self.completed, "shop/chk-2", **given)

    def lacking(self, **given: Any) -> list[int]:
        execution = self.execution()
        return self.plan(**given).to_restage(execution, execution.chain.sinks[0])

    def takes(self, reports: list[Report]) -> None:
        """A checkpoint in which these subtasks did something."""
        execution, plan = self.execution(), self.plan()
        execution.record(reports)
        acks = acknowledgements(plan, execution, range(self.parallelism), 0)
        self.completed = {ack.subtask: ack.snapshot for ack in acks}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    runs = [StateHandle(name, HandleKind.RUN, 1, 1, "", 1) for name in "ab"]
    made.takes([report for index, run in enumerate(runs) for report in reports_of(index, run)])
    return made


def reports_of(index: int, run: StateHandle) -> list[Report]:
    return [
        Report("counts", index, (run,), {}),
        Report("mirror-sink", index, (), {}, {"layout": "one", "horizon": 30}),
    ]


def test_a_sink_that_has_everything_is_given_nothing(shop: Shop) -> None:
    assert shop.lacking() == []
    shop.takes([])  # and knows it from one checkpoint to the next
    assert shop.lacking() == []
    (sink,) = shop.execution().chain.sinks
    assert shop.plan().staging(sink, shop.execution().chain.vertex).had[1].runs[0].path == "b"


def test_at_the_beginning_there_is_nothing_to_give(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert shop.lacking() == []
    shop.takes(reports_of(1, NEW_RUN))
    assert shop.lacking() == []


@pytest.mark.parametrize("id_", [SubtaskId("mirror-sink", 0), SubtaskId("mirror-sink", 1)])
def test_one_that_lacks_the_rows_of_a_subtask_is_given_all(shop: Shop, id_: SubtaskId) -> None:
    shop.completed[id_] = without_mark(shop.completed[id_])
    assert shop.lacking() == [0, 1]


def test_a_table_elsewhere_is_given_all(shop: Shop, tmp_path: Path) -> None:
    shop.root = tmp_path / "elsewhere"
    assert shop.lacking() == [0, 1]


def test_with_another_parallelism_it_is_given_all(shop: Shop) -> None:
    shop.parallelism = 1
    assert shop.lacking() == [0]


def test_that_there_are_no_rows_is_said_once(shop: Shop) -> None:
    shop.completed = {id_: Snapshot() for id_ in shop.completed}
    assert shop.lacking() == [0]
    shop.takes([])
    assert shop.lacking() == []


def test_a_state_that_is_dropped_is_one_that_the_sink_has_not(shop: Shop) -> None:
    shop.completed = {id_: each for id_, each in shop.completed.items() if id_.operator_id != "counts"}
    assert shop.lacking() == [0]


def test_rows_that_a_merge_has_removed_since_are_not_found_any_more(shop: Shop) -> None:
    id_ = SubtaskId("counts", 1)
    (run,) = shop.completed[id_].handles
    for removed_to, lacking in ((30, []), (31, [0, 1])):
        merged = replace(run, created_by=2, details={"ttl": MERGED | {"removed_to": removed_to}})
        shop.completed[id_] = Snapshot((merged,))
        assert shop.lacking() == lacking


def test_in_a_continuous_run_it_has_what_the_latest_completed_checkpoint_has(shop: Shop) -> None:
    before = dict(shop.completed)
    shop.completed[SubtaskId("counts", 1)] = Snapshot((*before[SubtaskId("counts", 1)].handles, NEW_RUN))
    assert shop.lacking(before=before) == [1]
    assert shop.lacking(before={}) == [0, 1]
