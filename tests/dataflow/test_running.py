"""What a vertex of a continuous region remembers of checkpoints that overlap."""

from types import SimpleNamespace
from typing import Any

from tidegate.dataflow.elements import Exchange
from tidegate.dataflow.event_time import InputWatermarks
from tidegate.dataflow.running import Epoch, PendingSnapshot, RunningChain
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId


def running(*epochs: int) -> RunningChain:
    nothing: Any = None
    chain = RunningChain(nothing, nothing)
    for id_ in epochs:
        chain.epochs[id_] = Epoch({"rows": [id_]}, {id_})  # type: ignore[list-item]
        chain.pending[id_] = chain.aligned[id_] = nothing
    chain.now = Epoch({"rows": [9]}, {9})  # type: ignore[list-item]
    return chain


def test_with_a_checkpoint_complete_those_before_it_and_no_more() -> None:
    chain = running(1, 2, 3)
    chain.completed(2)
    assert list(chain.epochs) == [3]
    assert chain.now.held == {"rows": [9]}


def test_what_is_written_for_an_older_one_goes_on_until_that_is_said_to_have_ended() -> None:
    """The completion of a newer one may be heard of first."""
    chain = running(1, 2)
    chain.completed(2)
    assert 1 in chain.pending
    assert 1 in chain.aligned
    chain.aborted(1)
    assert 1 not in chain.pending
    assert 1 not in chain.aligned


def test_what_an_aborted_one_had_goes_with_the_next() -> None:
    chain = running(1, 3)
    chain.aborted(1)
    assert {id_: epoch.held for id_, epoch in chain.epochs.items()} == {3: {"rows": [1, 3]}}
    assert chain.epochs[3].stale == {1, 3}
    chain.aborted(3)
    assert chain.now.held == {"rows": [1, 3, 9]}
    assert chain.now.stale == {1, 3, 9}


def test_what_sinks_have_is_known_unless_older_checkpoints_are_in_progress() -> None:
    chain, id_ = running(), SubtaskId("totals", 0)
    chain.chain = SimpleNamespace(vertex=SimpleNamespace(operator_id="totals"))  # type: ignore[assignment]
    chain.show({id_: (first := Snapshot(position={"at": 1})), SubtaskId("table-sink", 0): Snapshot()})
    assert chain.before(1) == {id_: first}
    chain.epochs[1] = Epoch()
    assert (chain.before(1), chain.before(2)) == ({id_: first}, {})
    chain.completed(1)
    chain.show({id_: (second := Snapshot(position={"at": 2}))})
    assert chain.before(2) == {id_: second}
    chain.epochs[2] = Epoch()
    chain.aborted(2)
    assert chain.before(3) == {id_: second}


def test_a_snapshot_that_is_being_written_needs_its_runs_and_what_came_before_its_barrier() -> None:
    """A merge makes them useless to everybody else, and deletes what nobody needs."""
    run, sent, older = (StateHandle(path, HandleKind.RUN, 1, 1, "", 1) for path in ("run", "sent", "older"))
    plan: Any = SimpleNamespace(restored={SubtaskId("totals", 0): Snapshot((run,))})
    execution: Any = SimpleNamespace(arrived={"rows": [Exchange((sent,))]})
    longest: Any = SimpleNamespace(arrived={"rows": [Exchange((older,)), Exchange((sent,))]})
    assert {handle.path for handle in PendingSnapshot(plan, execution).files()} == {"run", "sent"}
    overlapping = PendingSnapshot(plan, execution, (longest,), (1,))
    assert {handle.path for handle in overlapping.files()} == {"run", "sent", "older"}


def test_a_snapshot_has_the_watermarks_of_its_barrier() -> None:
    """An unaligned one is written later, when the inputs have come further."""
    marks = InputWatermarks({"log": 0}, [])
    marks.known["log"], marks.late = 5, 1
    chain: Any = SimpleNamespace(watermarks=marks, sinks=[])
    plan: Any = SimpleNamespace(checkpoint_id=1)
    nothing: Any = None
    pending = RunningChain(chain, nothing).take(plan)
    marks.known["log"], marks.late = 9, 2
    assert (pending.execution.watermarks, pending.execution.late) == ({"log": 5}, 1)
