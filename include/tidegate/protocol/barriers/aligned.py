"""Aligned, exactly-once barrier handling: every branch of protocol.md section 11.1, and the bound of section 11.2.

A channel waits behind its barrier until all barriers have arrived. Then the snapshot is taken, and all channels go on.
The waiting data may be bounded: a checkpoint that holds back more is aborted.
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
    EndAlignment,
    EndOfPartition,
    GateEvent,
    StartAlignment,
    Timeout,
)
from tidegate.protocol.facts.reasons import FailureReason


class AlignedBarrierHandler:
    """The handler of aligned barriers. `checkpoints_after_tasks_finish` is the switch of protocol.md section 13, on by
    default. `alignment_limit` is in bytes; None for no limit."""

    def __init__(
        self, num_channels: int, checkpoints_after_tasks_finish: bool = True, alignment_limit: int | None = None
    ) -> None:
        self._finished_count_as_aligned = checkpoints_after_tasks_finish
        self._limit = alignment_limit
        self._alignment = Alignment(num_channels)

    def step(self, event: GateEvent) -> list[Action]:
        match event:
            case Barrier():
                return self._barrier(event)
            case Cancel():
                return self._cancel(event.checkpoint_id)
            case EndOfPartition():
                return self._end_of_partition(event.channel)
            case BytesQueued():
                return self._queued(event.bytes)
            case Announcement() | Timeout():
                return []  # only barriers that may time out are announced or timed
            case _:
                assert_never(event)

    def _barrier(self, barrier: Barrier) -> list[Action]:
        checkpoint_id, channel = barrier.checkpoint_id, barrier.channel
        alignment = self._alignment
        if alignment.is_obsolete(checkpoint_id):
            return alignment.unblock(channel)
        actions: list[Action] = []
        if checkpoint_id > alignment.current:
            if alignment.pending:
                actions += self._abort(alignment.current, FailureReason.DECLINED_SUBSUMED)
            alignment.begin(barrier)
            actions.append(StartAlignment(checkpoint_id))
        alignment.aligned.add(channel)
        return actions + alignment.block(channel) + self._take_if_complete()

    def _cancel(self, checkpoint_id: int) -> list[Action]:
        if self._alignment.is_obsolete(checkpoint_id):
            return []
        # An older checkpoint that was aligning ends silently. Only the newer one is reported as aborted.
        return self._abort(checkpoint_id, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)

    def _end_of_partition(self, channel: int) -> list[Action]:
        alignment = self._alignment
        if not alignment.close(channel) or not alignment.pending:
            return []
        if not self._finished_count_as_aligned:
            return self._abort(alignment.current, FailureReason.DECLINED_INPUT_END_OF_STREAM)
        alignment.aligned.add(channel)  # a set: barrier and end of the same channel count once
        return alignment.unblock(channel) + self._take_if_complete()

    def _queued(self, size: int) -> list[Action]:
        if self._limit is None or size <= self._limit or not self._alignment.pending:
            return []
        return self._abort(self._alignment.current, FailureReason.ALIGNMENT_LIMIT_EXCEEDED)

    def _take_if_complete(self) -> list[Action]:
        alignment = self._alignment
        if not alignment.complete:
            return []
        alignment.end(alignment.current)
        return [EndAlignment(alignment.current), alignment.barrier.snapshot(), *alignment.unblock_all()]

    def _abort(self, checkpoint_id: int, reason: FailureReason) -> list[Action]:
        self._alignment.end(checkpoint_id)
        return [*self._alignment.unblock_all(), AbortSnapshot(checkpoint_id, reason)]
