"""protocol.md sections 10 and 12, row by row, and what holds whatever happens in between."""

import pytest
from cases import for_each

from tidegate.protocol.barriers.messages import ALIGNED, UNALIGNED, AlignmentType, BarrierOptions
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.subtask.messages import (
    AbortCapture,
    Acknowledge,
    AlignmentAborted,
    Begin,
    BroadcastBarrier,
    BroadcastCancel,
    CaptureEnded,
    Decline,
    DiscardSnapshot,
    Fail,
    Finish,
    ForwardAborted,
    ForwardComplete,
    ForwardSubsumed,
    NotifyAborted,
    NotifyComplete,
    Prepare,
    SnapshotOperators,
    StepDone,
    WriteEnded,
    WriteFailed,
)
from tidegate.protocol.subtask.steps import SubtaskSteps

ASYNC = FailureReason.CHECKPOINT_ASYNC_EXCEPTION
SUBSUMED = FailureReason.DECLINED_SUBSUMED
DECLINED = FailureReason.CHECKPOINT_DECLINED
FORCED = BarrierOptions(AlignmentType.FORCED_ALIGNED)


def written(checkpoint_id, options=ALIGNED, last=False):
    """The steps up to the asynchronous part."""
    return [
        (Begin(checkpoint_id, options, last), [Prepare(checkpoint_id)]),
        (StepDone(checkpoint_id), [BroadcastBarrier(checkpoint_id, options)]),
        (StepDone(checkpoint_id), [SnapshotOperators(checkpoint_id)]),
        (StepDone(checkpoint_id), []),
    ]


SECTION_12 = {
    "steps 1 to 5 in order, the barrier before the snapshot": [
        *written(1),
        (WriteEnded(1), [Acknowledge(1)]),
    ],
    "guard: an id already started, or older, is dropped silently": [
        *written(2),
        (Begin(2, ALIGNED), []),
        (Begin(1, ALIGNED), []),
        (WriteEnded(2), [Acknowledge(2)]),
        (Begin(2, ALIGNED), []),
    ],
    "guard: clears the abort mark": [
        (NotifyAborted(5), [ForwardAborted(5)]),
        *written(6),
        (Begin(5, ALIGNED), []),
    ],
    "step 0: aborted earlier": [
        (NotifyAborted(1), [ForwardAborted(1)]),
        (Begin(1, ALIGNED), [BroadcastCancel(1), AbortCapture(1)]),
        (Begin(1, ALIGNED), []),
        *written(2),
    ],
    "step 0: aborted earlier, a savepoint to stop with": [
        (NotifyAborted(1), [ForwardAborted(1)]),
        (Begin(1, ALIGNED, last=True), [BroadcastCancel(1), AbortCapture(1), Fail(1)]),
    ],
    "step 1: an abort sends a cancel marker in place of the barrier": [
        (Begin(1, ALIGNED), [Prepare(1)]),
        (NotifyAborted(1), [BroadcastCancel(1), ForwardAborted(1)]),
        (StepDone(1), []),
        *written(2),
    ],
    "step 1, unaligned: an abort ends the capture too": [
        (Begin(1, UNALIGNED), [Prepare(1)]),
        (NotifyAborted(1), [BroadcastCancel(1), AbortCapture(1), ForwardAborted(1)]),
    ],
    "step 2: an abort comes too late for the barrier, not for the snapshot": [
        (Begin(1, ALIGNED), [Prepare(1)]),
        (StepDone(1), [BroadcastBarrier(1, ALIGNED)]),
        (NotifyAborted(1), [ForwardAborted(1)]),
        (StepDone(1), []),
    ],
    "step 2: a forced alignment is undone downstream": [
        (Begin(1, FORCED), [Prepare(1)]),
        (StepDone(1), [BroadcastBarrier(1, UNALIGNED)]),
    ],
    "step 4: an abort discards the snapshot": [
        *written(1)[:3],
        (NotifyAborted(1), [DiscardSnapshot(1), ForwardAborted(1)]),
        (StepDone(1), []),
        (WriteEnded(1), []),
    ],
    "step 5: an abort that comes first wins": [
        *written(1),
        (NotifyAborted(1), [DiscardSnapshot(1), ForwardAborted(1)]),
        (WriteEnded(1), []),
        (WriteFailed(1), []),
    ],
    "step 5: an abort that comes second changes nothing": [
        *written(1),
        (WriteEnded(1), [Acknowledge(1)]),
        (NotifyAborted(1), [ForwardAborted(1)]),
    ],
    "step 5: several at once, each with its own fate": [
        *written(1),
        *written(2),
        (NotifyAborted(1), [DiscardSnapshot(1), ForwardAborted(1)]),
        (WriteEnded(2), [Acknowledge(2)]),
        (WriteEnded(1), []),
    ],
    "step 5, unaligned: the acknowledgement waits for what is captured": [
        *written(1, UNALIGNED),
        (WriteEnded(1), []),
        (CaptureEnded(1), [Acknowledge(1)]),
        (CaptureEnded(1), []),
    ],
    "step 5, unaligned: the capture may end first, even before the snapshot was taken": [
        (Begin(1, UNALIGNED), [Prepare(1)]),
        (CaptureEnded(1), []),
        (StepDone(1), [BroadcastBarrier(1, UNALIGNED)]),
        (StepDone(1), [SnapshotOperators(1)]),
        (StepDone(1), []),
        (WriteEnded(1), [Acknowledge(1)]),
    ],
    "step 5, unaligned: an abort ends the capture too": [
        *written(1, UNALIGNED),
        (NotifyAborted(1), [AbortCapture(1), DiscardSnapshot(1), ForwardAborted(1)]),
        (CaptureEnded(1), []),
    ],
    "step 5: a failure declines with its own reason": [
        *written(1),
        (WriteFailed(1, DECLINED), [DiscardSnapshot(1), Decline(1, DECLINED)]),
        (WriteEnded(1), []),
    ],
    "step 5: a failure without a reason": [
        *written(1),
        (WriteFailed(1), [DiscardSnapshot(1), Decline(1, ASYNC)]),
    ],
    "11.1 abort at the gate: decline, cancel marker, and its late barriers find nothing to start": [
        (AlignmentAborted(3, SUBSUMED), [Decline(3, SUBSUMED), BroadcastCancel(3)]),
        (Begin(3, ALIGNED), []),
        *written(4),
    ],
    "11.4 abort at the gate after the snapshot: what was begun is discarded": [
        *written(1, UNALIGNED),
        (AlignmentAborted(1, SUBSUMED), [
            AbortCapture(1), DiscardSnapshot(1), Decline(1, SUBSUMED), BroadcastCancel(1),
        ]),
        (WriteEnded(1), []),
    ],
    "11.1 abort at the gate of an older checkpoint does not let started ones start again": [
        *written(5),
        (AlignmentAborted(4, SUBSUMED), [Decline(4, SUBSUMED), BroadcastCancel(4)]),
        (Begin(5, ALIGNED), []),
    ],
}  # fmt: skip

SECTION_10 = {
    "complete is notified once, and never backwards": [
        (NotifyComplete(2), [ForwardComplete(2)]),
        (NotifyComplete(2), []),
        (NotifyComplete(1), []),
        (NotifyComplete(3), [ForwardComplete(3)]),
    ],
    "subsumed is notified after the completion that subsumed it": [
        (NotifyComplete(3, subsumed=1), [ForwardComplete(3), ForwardSubsumed(1)]),
        (NotifyComplete(3, subsumed=1), []),
    ],
    "aborted repairs a lost completion first": [
        *written(4),
        (NotifyAborted(4, latest_completed=3), [ForwardComplete(3), DiscardSnapshot(4), ForwardAborted(4)]),
        (NotifyComplete(3), []),
    ],
    "aborted with a completion that is known": [
        (NotifyComplete(3), [ForwardComplete(3)]),
        (NotifyAborted(4, latest_completed=3), [ForwardAborted(4)]),
    ],
    "aborted of one that has ended here is not remembered": [
        *written(4),
        (WriteEnded(4), [Acknowledge(4)]),
        (NotifyAborted(4), [ForwardAborted(4)]),
        *written(5),
    ],
}

SECTION_18 = {
    "a savepoint to stop with: the subtask lives until exactly this one completes": [
        *written(3, last=True),
        (WriteEnded(3), [Acknowledge(3)]),
        (NotifyComplete(2), [ForwardComplete(2)]),
        (NotifyComplete(3), [ForwardComplete(3), Finish(3)]),
        (NotifyAborted(3), [ForwardAborted(3)]),
    ],
    "a savepoint to stop with, aborted by notification: the subtask fails": [
        *written(3, last=True),
        (NotifyAborted(3), [DiscardSnapshot(3), ForwardAborted(3), Fail(3)]),
    ],
    "a savepoint to stop with, aborted at the gate: the subtask fails": [
        *written(3, last=True),
        (AlignmentAborted(3, SUBSUMED), [DiscardSnapshot(3), Decline(3, SUBSUMED), BroadcastCancel(3), Fail(3)]),
    ],
    "another one aborted: the subtask goes on": [
        *written(3, last=True),
        (NotifyAborted(2), [ForwardAborted(2)]),
        (NotifyComplete(3), [ForwardComplete(3), Finish(3)]),
    ],
}

ALL = {
    f"{section}: {name}": story
    for section, table in (("10", SECTION_10), ("12", SECTION_12), ("18", SECTION_18))
    for name, story in table.items()
}


@for_each("story", ALL.values(), ids=ALL)
def test_sections_10_12_and_18(story):
    steps = SubtaskSteps()
    assert [(event, steps.step(event)) for event, _ in story] == story


def begun_after_aborts(bound, aborted, begun):
    steps = SubtaskSteps(max_concurrent_checkpoints=bound)
    for id_ in aborted:
        steps.step(NotifyAborted(id_))
    return steps.step(Begin(begun, ALIGNED))[0]


@for_each(
    ("bound", "aborted", "begun", "first"),
    [
        (2, [7, 8, 9], 9, BroadcastCancel(9)),
        (2, [7, 8, 9], 8, BroadcastCancel(8)),
        (2, [7, 8, 9], 7, Prepare(7)),  # forgotten, and not older than 9 - 2
        (2, [7, 8, 9], 6, BroadcastCancel(6)),  # never told, but too old to count on that
        (2, [8, 9, 9], 8, BroadcastCancel(8)),  # told twice, remembered once
        (1, [9], 8, Prepare(8)),
        (1, [9], 7, BroadcastCancel(7)),
        (1, [9], 10, Prepare(10)),
    ],
)
def test_section_12_step_0_the_memory_of_aborted_ids_is_bounded(bound, aborted, begun, first):
    assert begun_after_aborts(bound, aborted, begun) == first


def test_section_12_step_0_only_what_has_not_started_yet_takes_room_in_the_memory():
    steps = SubtaskSteps(max_concurrent_checkpoints=1)
    for event in [*(event for event, _ in written(5)), NotifyAborted(7), NotifyAborted(4), NotifyAborted(5)]:
        steps.step(event)
    assert steps.step(Begin(7, ALIGNED)) == [BroadcastCancel(7), AbortCapture(7)]


def test_section_12_step_0_an_abort_that_was_honoured_makes_room_in_the_memory():
    steps = SubtaskSteps(max_concurrent_checkpoints=2)
    for event in [NotifyAborted(9), NotifyAborted(8), Begin(8, ALIGNED), NotifyAborted(10)]:
        steps.step(event)
    assert steps.step(Begin(9, ALIGNED)) == [BroadcastCancel(9), AbortCapture(9)]


def test_synchronous_steps_do_not_overlap():
    steps = SubtaskSteps()
    steps.step(Begin(1, ALIGNED))
    with pytest.raises(AssertionError):
        steps.step(Begin(2, ALIGNED))


def test_there_is_no_step_after_the_last():
    steps = SubtaskSteps()
    for event in [*(event for event, _ in written(1))]:
        steps.step(event)
    with pytest.raises(ValueError, match="no synchronous step left"):
        steps.step(StepDone(1))
