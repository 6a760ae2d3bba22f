"""The transition table: every pair of stages is either in it or refused."""

import itertools

import pytest

from tidegate.protocol.lifecycle import COMMITTED, TRANSITIONS, Phase, Status, is_legal

LEGAL = {
    "IN_PROGRESS/TRIGGERED -> IN_PROGRESS/ACKNOWLEDGED",
    "IN_PROGRESS/TRIGGERED -> FAILED/TRIGGERED",
    "IN_PROGRESS/ACKNOWLEDGED -> IN_PROGRESS/VALIDATED",
    "IN_PROGRESS/ACKNOWLEDGED -> FAILED/ACKNOWLEDGED",
    "IN_PROGRESS/VALIDATED -> COMPLETED/VALIDATED",
    "IN_PROGRESS/VALIDATED -> FAILED/VALIDATED",
    "COMPLETED/VALIDATED -> SUBSUMED/VALIDATED",
    "SUBSUMED/VALIDATED -> DISCARDED/VALIDATED",
}
STAGES = list(itertools.product(Status, Phase))


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STAGES, STAGES)))
def test_only_the_listed_transitions_are_legal(before, after):
    name = f"{before[0]}/{before[1]} -> {after[0]}/{after[1]}"
    assert is_legal(before, after) == (name in LEGAL)


def test_no_terminal_stage_is_ever_left():
    terminal = {stage for stage, successors in TRANSITIONS.items() if not successors}
    assert terminal == {(Status.DISCARDED, Phase.VALIDATED)} | {(Status.FAILED, phase) for phase in Phase}


def test_committed_is_what_lies_beyond_the_commit_point():
    reachable, frontier = set(), {(Status.COMPLETED, Phase.VALIDATED)}
    while frontier:
        stage = frontier.pop()
        reachable.add(stage[0])
        frontier |= set(TRANSITIONS[stage])
    assert reachable == COMMITTED
