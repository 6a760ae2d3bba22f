"""The transition table: every pair of stages is either in it or refused."""

import itertools
from pathlib import Path

from cases import for_each

from tidegate.protocol.facts.lifecycle import COMMITTED, TRANSITIONS, Phase, Status, is_legal

LEGAL = {
    "IN_PROGRESS/TRIGGERED -> IN_PROGRESS/ACKNOWLEDGED",
    "IN_PROGRESS/TRIGGERED -> FAILED/TRIGGERED",
    "IN_PROGRESS/ACKNOWLEDGED -> IN_PROGRESS/VALIDATED",
    "IN_PROGRESS/ACKNOWLEDGED -> IN_PROGRESS/HELD",
    "IN_PROGRESS/ACKNOWLEDGED -> FAILED/ACKNOWLEDGED",
    "IN_PROGRESS/HELD -> IN_PROGRESS/VALIDATED",
    "IN_PROGRESS/HELD -> FAILED/HELD",
    "IN_PROGRESS/VALIDATED -> COMPLETED/VALIDATED",
    "IN_PROGRESS/VALIDATED -> FAILED/VALIDATED",
    "COMPLETED/VALIDATED -> SUBSUMED/VALIDATED",
    "SUBSUMED/VALIDATED -> DISCARDED/VALIDATED",
}
STAGES = list(itertools.product(Status, Phase))


@for_each(("before", "after"), list(itertools.product(STAGES, STAGES)))
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


CAUSES = {
    "TRIGGERED": "trigger",
    "ACKNOWLEDGED": "last acknowledgement",
    "HELD": "a failed verdict with on_failure=hold",
    "VALIDATED": "every verdict good",
    "COMPLETED": "finalize (the commit point)",
    "FAILED": "abort",
    "SUBSUMED": "replaced by newer ones",
    "DISCARDED": "files deleted",
}
APPROVED = "approved"


def diagram():
    """The table as docs/reference/protocol.md shows it: phases while a checkpoint is in progress, then its status."""
    shown = {stage: str(stage[1] if stage[0] is Status.IN_PROGRESS else stage[0]) for stage in TRANSITIONS}
    edges = ["    [*] --> TRIGGERED: trigger"]
    for before, successors in TRANSITIONS.items():
        for after in sorted(successors):
            cause = APPROVED if (shown[before], shown[after]) == ("HELD", "VALIDATED") else CAUSES[shown[after]]
            edges.append(f"    {shown[before]} --> {shown[after]}: {cause}")
    return "\n".join(["```mermaid", "stateDiagram-v2", *dict.fromkeys(edges), "```"])


def test_the_documented_diagram_is_the_table():
    documented = (Path(__file__).parents[2] / "docs/reference/protocol.md").read_text()
    assert diagram() in documented, f"put this into docs/reference/protocol.md:\n{diagram()}"
