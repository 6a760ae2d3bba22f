"""What an edit writes for each subtask, and what it refuses: pure decisions."""

from dataclasses import replace

import pytest
from cases import for_each
from records import at, completed, run_handle

from tidegate.protocol.facts.errors import SavepointEditError, StateSchemaError
from tidegate.protocol.facts.keygroups import KeyGroupRange, covering, key_groups_of
from tidegate.protocol.facts.records import HandleKind, OperatorPlan, Snapshot, StateHandle, SubtaskId, SubtaskRecord
from tidegate.protocol.facts.savepoints import UNLABELLED, Label
from tidegate.protocol.recovery.canonical import STAGED_AS
from tidegate.protocol.recovery.editing import Base, begin_history, plan_edit, rewritten, with_staged
from tidegate.protocol.recovery.metadata import Metadata
from tidegate.protocol.steps.restored_snapshots import kept_max_parallelism

LOW = run_handle("low", 1, key_groups=KeyGroupRange(0, 63))
HIGH = run_handle("high", 1, key_groups=KeyGroupRange(64, 127))
READ = StateHandle("p/chk-1/src/0-1-m", HandleKind.POSITION, 1, 1, "0", 1)
STAGED = StateHandle("_staging/chk-1/0-1-x", HandleKind.STAGED, 1, 1, "0", 1)
PLANS = (OperatorPlan("src", 1, 128), OperatorPlan("op", 2, 128), OperatorPlan("out-sink", 2, 128))


def base_of(**snapshots):
    """By operator, the snapshots of its subtasks."""
    known = {
        "src": [Snapshot((READ,), {"files": 1})],
        "op": [Snapshot((LOW,)), Snapshot((HIGH,))],
        "out_sink": [Snapshot((STAGED,)), Snapshot()],
    } | snapshots
    subtasks = {
        (id_ := SubtaskId(name.replace("_", "-"), index)): SubtaskRecord(id_, 1, at(1), snapshot)
        for name, each in known.items()
        for index, snapshot in enumerate(each)
    }
    return Base(Metadata(completed(operators=PLANS), subtasks), "there", "checkpoint 1")


def planned(base, operators=PLANS, replaced=None, renamed=None, allow=False):
    upstreams = {"op": ("src",), "out-sink": ("op",)}
    return plan_edit(base, operators, upstreams, renamed or {}, replaced or {}, UNLABELLED, allow)


def wider(parallelism, max_parallelism):
    return (
        OperatorPlan("src", 1, max_parallelism),
        OperatorPlan("op", parallelism, max_parallelism),
        OperatorPlan("out-sink", parallelism, max_parallelism),
    )


def paths(plan):
    return [(each.subtask.subtask_index, [run.path for run in each.runs], each.former) for each in plan.rewrites]


@for_each(
    ("operators", "expected"),
    [
        (PLANS, [(0, ["low"], 128), (1, ["high"], 128)]),
        (wider(2, 256), [(0, ["low"], 128), (1, ["high"], 128)]),
        (wider(1, 64), [(0, ["low", "high"], 128)]),
        (wider(3, 300), [(0, ["low"], 128), (1, ["low", "high"], 128), (2, ["high"], 128)]),
    ],
    ids=["as it was", "more key groups", "fewer of both", "cut elsewhere"],
)
def test_each_subtask_of_the_definition_gets_the_runs_that_have_its_keys(operators, expected):
    plan = planned(base_of(), operators)
    found = [(index, sorted(runs, reverse=True), former) for index, runs, former in paths(plan)]
    assert found == [(index, sorted(runs, reverse=True), former) for index, runs, former in expected]
    assert plan.record.operators == operators
    assert plan.record.num_subtasks == sum(each.parallelism for each in operators)
    assert [copy.handle for copy in plan.copies] == [READ]


def test_what_is_replaced_loses_its_runs_and_every_subtask_is_written():
    empty = base_of(op=[Snapshot(), Snapshot((HIGH,))])
    assert paths(planned(empty)) == [(1, ["high"], 128)]
    assert paths(planned(empty, replaced={"op": False})) == [(0, [], 128), (1, ["high"], 128)]
    assert paths(planned(empty, replaced={"op": True})) == [(0, [], 128), (1, [], 128)]


def test_an_operator_that_was_renamed_is_found_by_its_former_name():
    operators = (PLANS[0], OperatorPlan("new", 2, 256), PLANS[2])
    plan = planned(base_of(), operators, renamed={"new": "op"})
    assert paths(plan) == [(0, ["low"], 128), (1, ["high"], 128)]
    assert plan.rewrites[0].path == "state/new/0"
    with pytest.raises(StateSchemaError, match="holds state or positions of op"):
        planned(base_of(), operators)
    assert planned(base_of(), operators, allow=True).rewrites == []


@for_each(
    "snapshot",
    [
        Snapshot((LOW,), {"in_flight": [["src/0", {}]]}),
        Snapshot((LOW, replace(LOW, path="c", kind=HandleKind.CHANNEL))),
    ],
    ids=["rows in the position", "rows in files"],
)
def test_rows_in_flight_cannot_be_rewritten(snapshot):
    with pytest.raises(
        SavepointEditError, match=r"unaligned one, and holds rows on their way to op .* Take a savepoint"
    ):
        planned(base_of(op=[snapshot, Snapshot()]))


def test_what_was_written_takes_the_place_of_what_it_was_made_from():
    base, written = base_of(), run_handle("state/op/0.parquet", 1)
    plan = planned(base, replaced={"op": True})
    subtasks = rewritten(base, plan, {SubtaskId("op", 0): written}, at(9))
    assert subtasks[SubtaskId("op", 0)].snapshot.handles == (written,)
    assert subtasks[SubtaskId("op", 1)].snapshot.handles == ()
    source = subtasks[SubtaskId("src", 0)].snapshot
    assert ([handle.path for handle in source.handles], source.position) == (["positions/src/1-0-1-m"], {"files": 1})
    assert subtasks[SubtaskId("out-sink", 0)].snapshot.handles == ()
    (staged,) = with_staged(subtasks, {SubtaskId("out-sink", 0): (STAGED,)})[SubtaskId("out-sink", 0)].snapshot.handles
    assert (staged.path, staged.details[STAGED_AS]) == (f"staged/out-sink/{STAGED.path}", STAGED.path)


def test_from_nothing_everything_is_new_and_nothing_is_copied():
    base = Base(Metadata(begin_history("p", PLANS, at(5)), {}), "there", "nothing")
    plan = planned(base, replaced={"op": True})
    assert paths(plan) == [(0, [], 128), (1, [], 128)]
    assert (plan.copies, plan.record.checkpoint_id, plan.record.completed_at) == ([], 1, at(5))
    assert rewritten(base, plan, {}, at(6))[SubtaskId("src", 0)].acknowledged_at == at(6)


def test_it_is_called_as_its_owner_says():
    upstreams = {"op": ("src",), "out-sink": ("op",)}
    plan = plan_edit(base_of(), PLANS, upstreams, {}, {}, Label("repaired", "why"), False)
    assert (plan.record.name, plan.record.note) == ("repaired", "why")


@for_each("other", [1, 64, 127, 128, 129, 256, 32768])
def test_key_groups_of_another_number_cover_the_same_keys(other):
    for index in range(3):
        own = key_groups_of(index, 3, 128)
        assert covering(covering(own, 128, other), other, 128).first <= own.first
        assert covering(covering(own, 128, other), other, 128).last >= own.last
    assert covering(KeyGroupRange(0, 127), 128, other) == KeyGroupRange(0, other - 1)
    assert covering(key_groups_of(1, 2, 128), 128, 128) == key_groups_of(1, 2, 128)


@for_each(
    ("plans", "parallelism", "kept"),
    [
        ([128, 128], 4, 128),
        ([128, 128], 128, 128),
        ([128, 128], 129, None),
        ([128, 256], 4, None),
    ],
)
def test_state_keeps_its_key_groups_where_that_leaves_each_subtask_one(plans, parallelism, kept):
    operators = tuple(OperatorPlan(f"o{at}", 1, number) for at, number in enumerate(plans))
    assert kept_max_parallelism(completed(operators=operators), parallelism) == kept
