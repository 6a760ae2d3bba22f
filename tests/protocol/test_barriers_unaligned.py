"""protocol.md sections 11.4 and 11.5, row by row."""

from dataclasses import replace

from cases import for_each

from tidegate.protocol.barriers.messages import (
    UNALIGNED,
    AbortSnapshot,
    AlignmentType,
    Announcement,
    Barrier,
    BarrierOptions,
    Block,
    BytesQueued,
    Cancel,
    CancelTimer,
    EndAlignment,
    EndOfPartition,
    Prioritize,
    SetTimer,
    StartAlignment,
    StartCapture,
    StopCapture,
    TakeSnapshot,
    Timeout,
    Unblock,
)
from tidegate.protocol.barriers.unaligned import UnalignedBarrierHandler
from tidegate.protocol.facts.reasons import FailureReason

SUBSUMED = FailureReason.DECLINED_SUBSUMED
CANCELLED = FailureReason.DECLINED_ON_CANCELLATION_BARRIER
ENDED = FailureReason.DECLINED_INPUT_END_OF_STREAM

TIMED = BarrierOptions(AlignmentType.ALIGNED, timeout=100)
SWITCHED = BarrierOptions(AlignmentType.UNALIGNED, timeout=100)
INFINITE = BarrierOptions(AlignmentType.ALIGNED, timeout=None)


def unaligned(checkpoint_id, channel):
    return Barrier(checkpoint_id, channel, UNALIGNED)


def timed(checkpoint_id, channel, now=1000):
    """Triggered at 1000, so due to switch at 1100."""
    return Barrier(checkpoint_id, channel, TIMED, triggered_at=1000, now=now)


def switched(checkpoint_id, channel, now=1000):
    return replace(timed(checkpoint_id, channel, now), options=SWITCHED)


def take(checkpoint_id, options=SWITCHED):
    return TakeSnapshot(checkpoint_id, options, 1000)


FIRST_UNALIGNED = [StartAlignment(1), StartCapture(1), StopCapture(1, 0), TakeSnapshot(1, UNALIGNED)]

# Each case: channels, the events in order, and the answer to each.
SECTION_11_4 = {
    "first barrier: capture and snapshot at once, nothing blocked": (3, [
        (unaligned(1, 0), FIRST_UNALIGNED),
    ]),
    "a channel's capture ends at its barrier, all at the last": (3, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (unaligned(1, 2), [StopCapture(1, 2)]),
        (unaligned(1, 1), [StopCapture(1, 1), EndAlignment(1)]),
    ]),
    "a channel's capture ends at its end": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (EndOfPartition(1), [StopCapture(1, 1), EndAlignment(1)]),
    ]),
    "single channel: all at once": (1, [
        (unaligned(1, 0), [*FIRST_UNALIGNED, EndAlignment(1)]),
    ]),
    "obsolete barriers: nothing": (2, [
        (unaligned(2, 0), [StartAlignment(2), StartCapture(2), StopCapture(2, 0), TakeSnapshot(2, UNALIGNED)]),
        (unaligned(1, 1), []),
        (unaligned(2, 1), [StopCapture(2, 1), EndAlignment(2)]),
        (unaligned(2, 0), []),
    ]),
    "cancel: abort also stops capture, later barriers swallowed": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (Cancel(1, 1), [StopCapture(1), AbortSnapshot(1, CANCELLED)]),
        (unaligned(1, 1), []),
    ]),
    "cancel, newer: told for the newer only, the older one's capture stops": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (Cancel(2, 1), [StopCapture(1), AbortSnapshot(2, CANCELLED)]),
        (unaligned(2, 0), []),
    ]),
    "cancel, older or completed: ignored": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (Cancel(0, 1), []),
        (unaligned(1, 1), [StopCapture(1, 1), EndAlignment(1)]),
        (Cancel(1, 1), []),
    ]),
    "newer barrier: the older one is subsumed and its capture stops": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (unaligned(2, 1), [
            StopCapture(1), AbortSnapshot(1, SUBSUMED),
            StartAlignment(2), StartCapture(2), StopCapture(2, 1), TakeSnapshot(2, UNALIGNED),
        ]),
    ]),
    "end of partition, nothing pending: nothing, and not waited for": (2, [
        (EndOfPartition(1), []),
        (EndOfPartition(1), []),
        (unaligned(1, 0), [*FIRST_UNALIGNED, EndAlignment(1)]),
    ]),
    "aligned barrier of the same id: the channel is blocked and released at the end": (3, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (Barrier(1, 1), [Block(1), StopCapture(1, 1)]),
        (unaligned(1, 2), [StopCapture(1, 2), EndAlignment(1), Unblock(1)]),
    ]),
    "savepoint: aligned, and both kinds may alternate": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 1), [Block(1), EndAlignment(1), TakeSnapshot(1), Unblock(0), Unblock(1)]),
        (unaligned(2, 0), [StartAlignment(2), StartCapture(2), StopCapture(2, 0), TakeSnapshot(2, UNALIGNED)]),
        (unaligned(2, 1), [StopCapture(2, 1), EndAlignment(2)]),
        (Barrier(3, 1), [StartAlignment(3), Block(1)]),
    ]),
    "queued bytes mean nothing": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (BytesQueued(10**12), []),
    ]),
}  # fmt: skip

SECTION_11_5 = {
    "start at the first barrier: timer at trigger + T": (2, [
        (timed(1, 0, now=1030), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (timed(1, 1, now=1090), [
            Block(1), CancelTimer(1), EndAlignment(1), take(1, TIMED), Unblock(0), Unblock(1),
        ]),
    ]),
    "start at the first announcement: timer, but no alignment yet": (2, [
        (Announcement(timed(1, 0, now=1030)), [SetTimer(1, 1100)]),
        (Announcement(timed(1, 1, now=1040)), []),
        (timed(1, 0, now=1050), [StartAlignment(1), Block(0)]),
    ]),
    "the delay is floored at 0": (2, [
        (Announcement(timed(1, 0, now=1500)), [SetTimer(1, 1500)]),
    ]),
    "an announcement of a newer id subsumes": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (Announcement(timed(2, 1)), [CancelTimer(1), Unblock(0), AbortSnapshot(1, SUBSUMED), SetTimer(2, 1100)]),
    ]),
    "an obsolete announcement: nothing": (1, [
        (timed(2, 0), [SetTimer(2, 1100), StartAlignment(2), CancelTimer(2), EndAlignment(2), take(2, TIMED)]),
        (Announcement(timed(2, 0)), []),
        (Announcement(timed(1, 0)), []),
    ]),
    "timeout, waiting-aligned: announced barriers get priority, snapshot at the first barrier": (3, [
        (Announcement(timed(1, 2)), [SetTimer(1, 1100)]),
        (Announcement(timed(1, 1)), []),
        (Timeout(1), [Prioritize(1, 1), Prioritize(1, 2)]),
        (switched(1, 2), [StartAlignment(1), StartCapture(1), StopCapture(1, 2), take(1)]),
        (switched(1, 1), [StopCapture(1, 1)]),
    ]),
    "waiting-unaligned: a new announcement gets priority at once": (2, [
        (Announcement(timed(1, 0)), [SetTimer(1, 1100)]),
        (Timeout(1), [Prioritize(1, 0)]),
        (Announcement(timed(1, 1)), [Prioritize(1, 1)]),
    ]),
    "waiting-unaligned: an end of partition is the first barrier": (3, [
        (Announcement(timed(1, 0)), [SetTimer(1, 1100)]),
        (Timeout(1), [Prioritize(1, 0)]),
        (EndOfPartition(2), [StartAlignment(1), StartCapture(1), StopCapture(1, 2), take(1)]),
    ]),
    "timeout, collecting-aligned: snapshot at once, go on collecting": (3, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (Announcement(timed(1, 1)), []),
        (Timeout(1), [Prioritize(1, 1), StartCapture(1), StopCapture(1, 0), take(1)]),
        (switched(1, 1), [StopCapture(1, 1)]),
        (switched(1, 2), [StopCapture(1, 2), EndAlignment(1), Unblock(0)]),
    ]),
    "collecting-unaligned: a new announcement gets priority at once": (2, [
        (switched(1, 0), [StartAlignment(1), StartCapture(1), StopCapture(1, 0), take(1)]),
        (Announcement(timed(1, 1)), [Prioritize(1, 1)]),
    ]),
    "timeout after completion: nothing": (1, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), CancelTimer(1), EndAlignment(1), take(1, TIMED)]),
        (Timeout(1), []),
    ]),
    "timeout after abort: nothing": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (Cancel(1, 1), [CancelTimer(1), Unblock(0), AbortSnapshot(1, CANCELLED)]),
        (Timeout(1), []),
    ]),
    "timeout of an older checkpoint: nothing": (2, [
        (timed(2, 0), [SetTimer(2, 1100), StartAlignment(2), Block(0)]),
        (Timeout(1), []),
    ]),
    "timeout after the switch: nothing": (2, [
        (switched(1, 0), [StartAlignment(1), StartCapture(1), StopCapture(1, 0), take(1)]),
        (Timeout(1), []),
    ]),
    "passive check, aligned barrier exactly at T: not late": (3, [
        (timed(1, 0, now=1100), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
    ]),
    "passive check, first barrier late: switches": (2, [
        (timed(1, 0, now=1101), [
            SetTimer(1, 1101), StartAlignment(1), Block(0), CancelTimer(1), StartCapture(1), StopCapture(1, 0), take(1),
        ]),
    ]),
    "passive check, later barrier late: switches": (3, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (Announcement(timed(1, 2)), []),
        (timed(1, 1, now=1101), [
            Block(1), CancelTimer(1), Prioritize(1, 2), StartCapture(1), StopCapture(1, 0), StopCapture(1, 1), take(1),
        ]),
    ]),
    "passive check, end of partition late: switches": (3, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (EndOfPartition(1, now=1101), [
            CancelTimer(1), StartCapture(1), StopCapture(1, 0), StopCapture(1, 1), take(1),
        ]),
        (timed(1, 2, now=1200), [Block(2), StopCapture(1, 2), EndAlignment(1), Unblock(0), Unblock(2)]),
    ]),
    "the barrier that completes the set finishes aligned, even late": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (timed(1, 1, now=5000), [Block(1), CancelTimer(1), EndAlignment(1), take(1, TIMED), Unblock(0), Unblock(1)]),
    ]),
    "the end that completes the set finishes aligned, even late": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (EndOfPartition(1, now=5000), [CancelTimer(1), EndAlignment(1), take(1, TIMED), Unblock(0)]),
    ]),
    "an upstream has switched, waiting: switch too": (2, [
        (Announcement(timed(1, 1)), [SetTimer(1, 1100)]),
        (switched(1, 0), [
            StartAlignment(1), CancelTimer(1), Prioritize(1, 1), StartCapture(1), StopCapture(1, 0), take(1),
        ]),
    ]),
    "an upstream has switched, collecting: switch too": (3, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (switched(1, 1), [CancelTimer(1), StartCapture(1), StopCapture(1, 0), StopCapture(1, 1), take(1)]),
    ]),
    "an upstream has switched, and its barrier is the last: unaligned, it has overtaken data": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (switched(1, 1), [
            CancelTimer(1), StartCapture(1), StopCapture(1, 0), StopCapture(1, 1), take(1), EndAlignment(1), Unblock(0),
        ]),
    ]),
    "T infinite: never switches": (3, [
        (Barrier(1, 0, INFINITE), [StartAlignment(1), Block(0)]),
        (Barrier(1, 1, INFINITE, now=10**15), [Block(1)]),
        (EndOfPartition(2, now=10**15), [EndAlignment(1), TakeSnapshot(1, INFINITE), Unblock(0), Unblock(1)]),
    ]),
    "switch back: the next checkpoint begins aligned again": (2, [
        (switched(1, 0), [StartAlignment(1), StartCapture(1), StopCapture(1, 0), take(1)]),
        (switched(1, 1), [StopCapture(1, 1), EndAlignment(1)]),
        (timed(2, 1), [SetTimer(2, 1100), StartAlignment(2), Block(1)]),
    ]),
    "cancel of what is only announced: aborted": (2, [
        (Announcement(timed(1, 0)), [SetTimer(1, 1100)]),
        (Cancel(1, 1), [CancelTimer(1), AbortSnapshot(1, CANCELLED)]),
        (timed(1, 0), []),
    ]),
    "an abort forgets what was announced": (3, [
        (Announcement(timed(1, 1)), [SetTimer(1, 1100)]),
        (Cancel(1, 0), [CancelTimer(1), AbortSnapshot(1, CANCELLED)]),
        (timed(2, 0), [SetTimer(2, 1100), StartAlignment(2), Block(0)]),
        (Timeout(2), [StartCapture(2), StopCapture(2, 0), take(2)]),
    ]),
    "forced aligned: as a savepoint": (2, [
        (Barrier(1, 0, TIMED.forced_aligned()), [StartAlignment(1), Block(0)]),
    ]),
}  # fmt: skip

FINISHED_OFF = {
    "11.4 end of partition: aborted, capture stops": (2, [
        (unaligned(1, 0), FIRST_UNALIGNED),
        (EndOfPartition(1), [StopCapture(1), AbortSnapshot(1, ENDED)]),
    ]),
    "11.5 end of partition: aborted, timer cancelled": (2, [
        (timed(1, 0), [SetTimer(1, 1100), StartAlignment(1), Block(0)]),
        (EndOfPartition(1), [CancelTimer(1), Unblock(0), AbortSnapshot(1, ENDED)]),
        (EndOfPartition(0), []),
    ]),
}  # fmt: skip


@for_each(("channels", "story"), SECTION_11_4.values(), ids=SECTION_11_4)
def test_section_11_4(channels, story):
    handler = UnalignedBarrierHandler(channels)
    assert [(event, handler.step(event)) for event, _ in story] == story


@for_each(("channels", "story"), SECTION_11_5.values(), ids=SECTION_11_5)
def test_section_11_5(channels, story):
    handler = UnalignedBarrierHandler(channels)
    assert [(event, handler.step(event)) for event, _ in story] == story


@for_each(("channels", "story"), FINISHED_OFF.values(), ids=FINISHED_OFF)
def test_without_checkpoints_after_tasks_finish(channels, story):
    handler = UnalignedBarrierHandler(channels, checkpoints_after_tasks_finish=False)
    assert [(event, handler.step(event)) for event, _ in story] == story
