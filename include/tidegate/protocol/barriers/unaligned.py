"""Unaligned barriers and aligned ones with a timeout: protocol.md sections 11.4 and 11.5. Exactly once.

A barrier's options determine how its checkpoint begins. An unaligned checkpoint takes its snapshot at the first barrier
and captures the data that is still before the others. An aligned one follows section 11.1. With a timeout it becomes
unaligned when waiting takes too long. Savepoints stay aligned, so both kinds may alternate.

The four states of section 11.5 follow from two questions: is the checkpoint unaligned, and has any barrier or end
arrived? A sender has no timer of its own here. A channel has one queue, at the receiving gate, and a barrier that waits
in it is announced and prioritized there.
"""

from typing import assert_never

from tidegate.protocol.barriers.alignment import Alignment
from tidegate.protocol.barriers.messages import (
    AbortSnapshot,
    Action,
    Announcement,
    Barrier,
    BytesQueued,
    Cancel,
    CancelTimer,
    EndAlignment,
    EndOfPartition,
    GateEvent,
    Prioritize,
    SetTimer,
    StartAlignment,
    StartCapture,
    StopCapture,
    Timeout,
)
from tidegate.protocol.facts.reasons import FailureReason


class UnalignedBarrierHandler:
    """The handler of unaligned barriers. `checkpoints_after_tasks_finish` is the switch of protocol.md section 13, on
    by default."""

    def __init__(self, num_channels: int, checkpoints_after_tasks_finish: bool = True) -> None:
        self._finished_count_as_aligned = checkpoints_after_tasks_finish
        self._alignment = Alignment(num_channels)
        self._announced: set[int] = set()  # channels in which a barrier of the current checkpoint still waits
        self._unaligned = False  # whether the current checkpoint is unaligned, from its beginning or after a switch
        self._captures = False  # whether its snapshot has been taken and in-flight data is being captured
        self._times_out_at: int | None = None  # when the current checkpoint, still aligned, will have waited too long

    def step(self, event: GateEvent) -> list[Action]:
        match event:
            case Barrier():
                return self._barrier(event)
            case Announcement():
                return self._announcement(event.barrier)
            case Timeout():
                return self._timeout(event.checkpoint_id)
            case Cancel():
                return self._cancel(event.checkpoint_id)
            case EndOfPartition():
                return self._end_of_partition(event.channel, event.now)
            case BytesQueued():
                return []  # the alignment limit is an option of the aligned handler
            case _:
                assert_never(event)

    def _barrier(self, barrier: Barrier) -> list[Action]:
        alignment = self._alignment
        if alignment.is_obsolete(barrier.checkpoint_id):
            return alignment.unblock(barrier.channel)
        actions = self._begin_if_newer(barrier) + self._start_if_first()
        self._announced.discard(barrier.channel)
        if barrier.options.unaligned:
            # The upstream has switched, or was unaligned from the beginning: this barrier has overtaken data.
            actions += self._become_unaligned()
        else:
            # In an unaligned checkpoint this barrier is out of order. Its channel is blocked nevertheless, and
            # unblocked at the end.
            actions += alignment.block(barrier.channel)
        return actions + self._arrived(barrier.channel, barrier.now)

    def _announcement(self, barrier: Barrier) -> list[Action]:
        if self._alignment.is_obsolete(barrier.checkpoint_id):
            return []
        actions = self._begin_if_newer(barrier)
        if self._unaligned:
            return [*actions, Prioritize(barrier.checkpoint_id, barrier.channel)]
        self._announced.add(barrier.channel)
        return actions

    def _timeout(self, checkpoint_id: int) -> list[Action]:
        alignment = self._alignment
        if checkpoint_id != alignment.current or not alignment.pending or self._unaligned:
            return []  # it completed, was aborted or has switched in the meantime
        self._times_out_at = None
        return self._become_unaligned() + (self._take_unaligned() if alignment.aligned else [])

    def _cancel(self, checkpoint_id: int) -> list[Action]:
        # The checkpoint may only be announced elsewhere. In this channel the marker takes the barrier's place.
        if self._alignment.is_obsolete(checkpoint_id):
            return []
        return self._abort(checkpoint_id, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)

    def _end_of_partition(self, channel: int, now: int) -> list[Action]:
        alignment = self._alignment
        if not alignment.close(channel) or not alignment.pending:
            return []
        if not self._finished_count_as_aligned:
            return self._abort(alignment.current, FailureReason.DECLINED_INPUT_END_OF_STREAM)
        return self._start_if_first() + alignment.unblock(channel) + self._arrived(channel, now)

    def _start_if_first(self) -> list[Action]:
        return [] if self._alignment.aligned else [StartAlignment(self._alignment.current)]

    def _begin_if_newer(self, barrier: Barrier) -> list[Action]:
        alignment = self._alignment
        if barrier.checkpoint_id == alignment.current:
            return []
        actions = self._abort(alignment.current, FailureReason.DECLINED_SUBSUMED) if alignment.pending else []
        alignment.begin(barrier)
        timeout = barrier.options.times_out_after
        if timeout is not None:
            # Counted from the trigger, so it includes the barrier's way to this gate. The trigger's clock may be ahead.
            self._times_out_at = min(barrier.triggered_at, barrier.now) + timeout
            actions.append(SetTimer(barrier.checkpoint_id, max(self._times_out_at, barrier.now)))
        return actions

    def _arrived(self, channel: int, now: int) -> list[Action]:
        """Handle a channel's barrier or end. The last one of an aligned checkpoint leaves it aligned, however late it
        is."""
        alignment = self._alignment
        current = alignment.current
        actions: list[Action] = []
        alignment.aligned.add(channel)
        late = self._times_out_at is not None and self._times_out_at < now
        if not self._unaligned and not alignment.complete and late:
            actions += self._become_unaligned()
        if self._captures:
            actions.append(StopCapture(current, channel))
        elif self._unaligned:
            actions += self._take_unaligned()
        if not alignment.complete:
            return actions
        taken = self._unaligned
        actions += [*self._end(current), EndAlignment(current)]
        return actions + ([] if taken else [alignment.barrier.snapshot()]) + alignment.unblock_all()

    def _become_unaligned(self) -> list[Action]:
        if self._unaligned:
            return []
        self._unaligned = True
        prioritized = [Prioritize(self._alignment.current, channel) for channel in sorted(self._announced)]
        self._announced.clear()
        return [*self._stop_timer(), *prioritized]

    def _take_unaligned(self) -> list[Action]:
        self._captures = True
        current = self._alignment.current
        arrived = [StopCapture(current, channel) for channel in sorted(self._alignment.aligned)]
        return [StartCapture(current), *arrived, self._alignment.barrier.as_unaligned().snapshot()]

    def _abort(self, checkpoint_id: int, reason: FailureReason) -> list[Action]:
        stop: list[Action] = [StopCapture(self._alignment.current)] if self._captures else []
        ended = self._end(checkpoint_id)
        return [*stop, *ended, *self._alignment.unblock_all(), AbortSnapshot(checkpoint_id, reason)]

    def _end(self, checkpoint_id: int) -> list[Action]:
        timer = self._stop_timer()
        self._alignment.end(checkpoint_id)
        self._announced.clear()
        self._unaligned = self._captures = False
        return timer

    def _stop_timer(self) -> list[Action]:
        if self._times_out_at is None:
            return []
        self._times_out_at = None
        return [CancelTimer(self._alignment.current)]
