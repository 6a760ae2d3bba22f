"""protocol.md section 2: where a pipeline may go from where it is."""

import itertools

import pytest
from records import at

from tidegate.protocol.errors import PipelineStatusError
from tidegate.protocol.pipelines import (
    ACTIVE,
    PIPELINE_TRANSITIONS,
    PipelineRecord,
    PipelineStatus,
    moved,
    require_move,
)

CREATED, RUNNING, SUSPENDED, FAILED, FINISHED, CANCELLED = PipelineStatus
LEGAL = {
    (CREATED, RUNNING), (CREATED, SUSPENDED), (CREATED, CANCELLED), (RUNNING, SUSPENDED), (RUNNING, FAILED),
    (RUNNING, FINISHED), (RUNNING, CANCELLED), (SUSPENDED, RUNNING), (SUSPENDED, CANCELLED), (FAILED, RUNNING),
    (FAILED, CANCELLED),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), list(itertools.product(PipelineStatus, repeat=2)))
def test_the_table_of_transitions(before, after):
    if (before, after) in LEGAL:
        require_move(PipelineRecord("p", before), after)
    else:
        with pytest.raises(PipelineStatusError, match=f"Pipeline p is {before} and cannot become {after}"):
            require_move(PipelineRecord("p", before), after)


def test_what_has_ended_stays_ended_and_the_error_says_so():
    assert {status for status, after in PIPELINE_TRANSITIONS.items() if not after} == {FINISHED, CANCELLED}
    with pytest.raises(PipelineStatusError, match="That is final; give a new pipeline another name"):
        require_move(PipelineRecord("p", CANCELLED), RUNNING)


def test_only_a_pipeline_that_runs_or_was_never_asked_is_active():
    assert {CREATED, RUNNING} == ACTIVE


def test_moving_keeps_what_was_forgiven_unless_more_is():
    before = PipelineRecord("p", FAILED, at(1), "why", 3)
    assert moved(before, RUNNING, at(2), None, 7) == PipelineRecord("p", RUNNING, at(2), None, 7)
    assert moved(before, CANCELLED, at(2), None, None).forgiven_until == 3
