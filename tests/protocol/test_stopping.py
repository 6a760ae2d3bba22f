"""protocol.md section 18, with what sections 3 and 8 say about savepoints to stop with;
and when a pipeline is at its end."""

from datetime import timedelta

import pytest
from cases import for_each
from records import at, completed, record

from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.cleaning.retention import RetentionRule, choose_subsumed, choose_subsumed_on_cancellation
from tidegate.protocol.facts.errors import IllegalRequestError, PipelineStatusError
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.failures import Tolerated, decide_pipeline_failure
from tidegate.protocol.steps.stopping import (
    PipelineEnd,
    Restart,
    StopFailed,
    decide_end,
    decide_stop_failure,
    require_legal,
    require_resumable,
    stop_mode,
    stopping_message,
)

SYNC = CheckpointKind.SYNC_SAVEPOINT


@for_each("kind", CheckpointKind)
@for_each("drain", [True, False])
def test_only_a_savepoint_to_stop_with_may_advance_to_the_end(kind, drain):
    if drain and kind is not SYNC:
        with pytest.raises(IllegalRequestError, match=f"A {kind} cannot drain the pipeline.*Nothing was triggered"):
            require_legal("r", kind, drain)
    else:
        require_legal("r", kind, drain)


@for_each(
    ("kind", "drain", "mode"),
    [
        (CheckpointKind.CHECKPOINT, False, None),
        (CheckpointKind.SAVEPOINT, False, None),
        (SYNC, False, StopMode.SUSPEND),
        (SYNC, True, StopMode.DRAIN),
    ],
)
def test_what_goes_before_the_barriers(kind, drain, mode):
    assert stop_mode(record(kind=kind, drain=drain)) is mode


#: Section 8: whose failure it is. A subtask that was to stop has stopped emitting and cannot go on.
JOB_LEVEL = {
    "PERIODIC_SCHEDULER_SHUTDOWN", "MINIMUM_TIME_BETWEEN_CHECKPOINTS", "TOO_MANY_CHECKPOINT_REQUESTS",
    "NOT_ALL_REQUIRED_TASKS_RUNNING", "CHECKPOINT_EXPIRED", "VALIDATION_FAILED", "FINALIZE_CHECKPOINT_FAILURE",
    "COORDINATOR_SUSPEND", "COORDINATOR_SHUTDOWN", "JOB_FAILOVER_REGION", "VALIDATION_REJECTED", "HOLD_EXPIRED",
    "CHECKPOINT_SUBSUMED",
}  # fmt: skip


@for_each("reason", FailureReason)
def test_a_failed_savepoint_lets_the_pipeline_go_on_unless_a_subtask_failed(reason):
    decision = decide_stop_failure(record(4, kind=SYNC), reason, "the disk is full")
    if reason.name in JOB_LEVEL:
        assert decision == Restart()
    else:
        assert isinstance(decision, StopFailed)
        assert (
            f"could not take savepoint 4, with which it was to stop, and cannot continue without it. {reason.name}, "
            "the" in (decision.message)
        )


@for_each("kind", [CheckpointKind.SAVEPOINT, SYNC])
def test_no_failed_savepoint_is_counted(kind):
    failed = record(4, kind=kind, failure_reason=FailureReason.CHECKPOINT_EXPIRED, failure_message="m")
    assert decide_pipeline_failure([failed], 0, True) == Tolerated(0)


def test_a_savepoint_to_stop_with_is_never_subsumed_not_even_on_cancellation():
    retained = [completed(1, kind=SYNC), completed(2), completed(3)]
    assert choose_subsumed(retained, RetentionRule(1, timedelta(0), timedelta(0)), at(1000)) == [2]
    assert choose_subsumed_on_cancellation(retained, keep=False) == [2, 3]


def pipeline(status, message=None):
    return PipelineRecord("p", status, at(0), message)


AT_END = completed(5, num_finished=2)
DRAINED = completed(5, num_finished=2, kind=SYNC, drain=True)
STOPPED = completed(5, kind=SYNC)
MAY_END = {PipelineStatus.RUNNING, PipelineStatus.STOPPING, PipelineStatus.SUSPENDED}


@for_each("status", PipelineStatus)
@for_each(
    ("latest", "in_progress", "ends_when"),
    [
        (None, [], set()),
        (completed(5), [], set()),
        (completed(5, num_finished=1), [], set()),
        (AT_END, [], MAY_END),
        (AT_END.moved(notified_at=None), [], set()),
        (AT_END, [record(6)], set()),
        (DRAINED, [], MAY_END),
        (STOPPED, [], {PipelineStatus.STOPPING}),
        (STOPPED.moved(notified_at=None), [], set()),
        (STOPPED, [record(6, kind=SYNC)], set()),
        (completed(5, kind=CheckpointKind.SAVEPOINT), [], set()),
    ],
)
def test_a_pipeline_has_finished_when_the_sinks_were_notified_of_its_last_checkpoint(
    status, latest, in_progress, ends_when
):
    assert isinstance(decide_end(pipeline(status), latest, in_progress), PipelineEnd) is (status in ends_when)


@for_each(
    ("latest", "words"),
    [
        (AT_END, "Checkpoint 5 has read every source to its end."),
        (DRAINED, "It was drained by savepoint 5 (p/chk-5/_metadata): nothing follows it."),
        (STOPPED, "It was stopped with savepoint 5 (p/chk-5/_metadata); `tidegate resume p` continues from it."),
    ],
)
def test_a_finished_pipeline_says_how_it_ended_and_where_its_savepoint_is(latest, words):
    assert decide_end(pipeline(PipelineStatus.STOPPING), latest, []) == PipelineEnd(words)


@for_each(
    ("status", "latest", "words"),
    [
        (PipelineStatus.FINISHED, STOPPED, None),
        (PipelineStatus.FINISHED, AT_END, "FINISHED and cannot be resumed. Checkpoint 5 has read every source"),
        (PipelineStatus.FINISHED, DRAINED, "FINISHED and cannot be resumed. It was drained by savepoint 5"),
        (PipelineStatus.STOPPING, completed(4), "STOPPING and cannot be resumed. It stops with savepoint 5"),
        (PipelineStatus.SUSPENDED, AT_END, None),
        (PipelineStatus.FAILED, None, None),
    ],
)
def test_who_can_be_resumed(status, latest, words):
    known = pipeline(status, stopping_message(record(5, kind=SYNC)))
    if words is None:
        require_resumable(known, latest)
    else:
        with pytest.raises(PipelineStatusError, match=words):
            require_resumable(known, latest)


@for_each(("drain", "command"), [(False, "`tidegate stop` continues"), (True, "`tidegate stop --drain` continues")])
def test_while_it_stops_it_says_with_what_and_how_to_continue_or_abort_it(drain, command):
    message = stopping_message(record(5, kind=SYNC, drain=drain))
    assert message.startswith("It stops with savepoint 5, requested by r5: ")
    assert command in message
    assert "`tidegate suspend` aborts it" in message
