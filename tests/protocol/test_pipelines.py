"""protocol.md section 2: where a pipeline may go from where it is."""

import itertools
from pathlib import Path

import pytest
from cases import for_each
from records import at

from tidegate.protocol.facts.errors import PipelineStatusError
from tidegate.protocol.facts.pipelines import (
    ACTIVE,
    PIPELINE_TRANSITIONS,
    PipelineRecord,
    PipelineStatus,
    moved,
    require_move,
)

CREATED, RUNNING, STOPPING, SUSPENDED, FAILED, FINISHED, CANCELLED = PipelineStatus
LEGAL = {
    (CREATED, RUNNING), (CREATED, STOPPING), (CREATED, SUSPENDED), (CREATED, CANCELLED),
    (RUNNING, STOPPING), (RUNNING, SUSPENDED), (RUNNING, FAILED), (RUNNING, FINISHED), (RUNNING, CANCELLED),
    (STOPPING, RUNNING), (STOPPING, SUSPENDED), (STOPPING, FAILED), (STOPPING, FINISHED), (STOPPING, CANCELLED),
    (SUSPENDED, RUNNING), (SUSPENDED, FINISHED), (SUSPENDED, CANCELLED), (FAILED, RUNNING), (FAILED, CANCELLED),
    (FINISHED, RUNNING), (FINISHED, CANCELLED),
}  # fmt: skip


@for_each(("before", "after"), list(itertools.product(PipelineStatus, repeat=2)))
def test_the_table_of_transitions(before, after):
    if (before, after) in LEGAL:
        require_move(PipelineRecord("p", before), after)
    else:
        with pytest.raises(PipelineStatusError, match=f"Pipeline p is {before} and cannot become {after}"):
            require_move(PipelineRecord("p", before), after)


def test_what_has_ended_stays_ended_and_the_error_says_so():
    assert {status for status, after in PIPELINE_TRANSITIONS.items() if not after} == {CANCELLED}
    with pytest.raises(PipelineStatusError, match="That is final; give a new pipeline another name"):
        require_move(PipelineRecord("p", CANCELLED), RUNNING)


CAUSES = {
    RUNNING: "resume", STOPPING: "stop", SUSPENDED: "suspend", FAILED: "too many failures",
    FINISHED: "all is read", CANCELLED: "cancel",
}  # fmt: skip
SPECIAL = {
    (CREATED, RUNNING): "first request",
    (STOPPING, RUNNING): "savepoint failed",
    (STOPPING, FAILED): "a subtask failed",
    (STOPPING, FINISHED): "sinks have committed the savepoint",
    (FINISHED, RUNNING): "resume, if it was stopped and not drained",
}


def diagram():
    """The table as docs/reference/protocol.md shows it."""
    edges = [
        f"    {before} --> {after}: {SPECIAL.get((before, after), CAUSES[after])}"
        for before in PipelineStatus
        for after in PipelineStatus
        if after in PIPELINE_TRANSITIONS[before]
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> CREATED", *edges, "```"])


def test_the_documented_diagram_is_the_table():
    documented = (Path(__file__).parents[2] / "docs/reference/protocol.md").read_text()
    assert diagram() in documented, f"put this into docs/reference/protocol.md:\n{diagram()}"


def test_only_a_pipeline_that_runs_or_was_never_asked_is_active():
    assert {CREATED, RUNNING} == ACTIVE


def test_moving_keeps_what_was_forgiven_unless_more_is():
    before = PipelineRecord("p", FAILED, at(1), "why", 3)
    assert moved(before, RUNNING, at(2), None, 7) == PipelineRecord("p", RUNNING, at(2), None, 7)
    assert moved(before, CANCELLED, at(2), None, None).forgiven_until == 3
