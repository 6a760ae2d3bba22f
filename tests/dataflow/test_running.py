"""What a vertex of a continuous region remembers of checkpoints that overlap."""

from typing import Any

from tidegate.dataflow.running import Epoch, RunningChain


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
