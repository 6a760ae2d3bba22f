"""Barrier handling for at-least-once: protocol.md section 11.3. Nothing is ever blocked. Barriers are only counted.

Several checkpoints may be open at once. A checkpoint that lacks a barrier is dropped silently when a newer one
completes. An older one may still complete if its last barrier arrives before the newer one's.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

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

MAX_TRACKED = 50


@dataclass(slots=True)
class _Tracked:
    """A checkpoint that still lacks barriers. An aborted one is kept, so that its further barriers are ignored."""

    checkpoint_id: int
    target: int
    barrier: Barrier | None = None  # the first one; None if a cancel marker arrived before it
    aligned: set[int] = field(default_factory=set)
    aborted: bool = False

    def add(self, channel: int) -> bool:
        """Count a channel, and return whether every channel has now sent a barrier or marker."""
        self.aligned.add(channel)
        return len(self.aligned) >= self.target

    def abort(self, reason: FailureReason) -> list[Action]:
        """Report the abort once, however often it is called."""
        if self.aborted:
            return []
        self.aborted = True
        return [AbortSnapshot(self.checkpoint_id, reason)]


class BarrierTracker:
    """The handler that counts barriers. `checkpoints_after_tasks_finish` is the switch of protocol.md section 13, on by
    default."""

    def __init__(self, num_channels: int, checkpoints_after_tasks_finish: bool = True) -> None:
        self._num_channels = num_channels
        self._finished_count_as_aligned = checkpoints_after_tasks_finish
        self._closed: set[int] = set()
        self._highest = -1  # newest checkpoint seen
        self._queue: deque[_Tracked] = deque(maxlen=MAX_TRACKED)  # oldest first; overflow drops the oldest silently

    def step(self, event: GateEvent) -> list[Action]:
        match event:
            case Barrier():
                return self._barrier(event)
            case Cancel():
                return self._cancel(event.checkpoint_id, event.channel)
            case EndOfPartition():
                return self._end_of_partition(event.channel)
            case Announcement() | Timeout() | BytesQueued():
                return []  # nothing is blocked, so nothing can time out or queue up
            case _:
                assert_never(event)

    @property
    def _open(self) -> int:
        return self._num_channels - len(self._closed)

    def _barrier(self, barrier: Barrier) -> list[Action]:
        checkpoint_id, channel = barrier.checkpoint_id, barrier.channel
        tracked = next((entry for entry in self._queue if entry.checkpoint_id == checkpoint_id), None)
        if tracked is not None:
            return self._complete(tracked) if tracked.add(channel) else []
        if checkpoint_id <= self._highest:
            return []  # dropped or completed, or cannot complete any more
        self._highest = checkpoint_id
        start: list[Action] = [StartAlignment(checkpoint_id)]
        if self._open <= 1:  # with none open the subtask is triggered directly, through any channel
            return [*start, EndAlignment(checkpoint_id), barrier.snapshot()]
        self._queue.append(_Tracked(checkpoint_id, self._open, barrier, {channel}))
        return start

    def _cancel(self, checkpoint_id: int, channel: int) -> list[Action]:
        reason = FailureReason.DECLINED_ON_CANCELLATION_BARRIER
        newer = checkpoint_id > self._highest
        self._highest = max(self._highest, checkpoint_id)
        if newer and self._open == 1:
            return [AbortSnapshot(checkpoint_id, reason)]
        actions: list[Action] = []
        while self._queue and self._queue[0].checkpoint_id < checkpoint_id:
            actions += self._queue.popleft().abort(reason)
        if newer:
            self._queue.append(_Tracked(checkpoint_id, self._open))
        if self._queue and self._queue[0].checkpoint_id == checkpoint_id:
            actions += self._queue[0].abort(reason)
            if self._queue[0].add(channel):
                self._queue.popleft()
        return actions

    def _end_of_partition(self, channel: int) -> list[Action]:
        if channel in self._closed:
            return []
        self._closed.add(channel)
        if self._finished_count_as_aligned:
            # The newest that completes takes all older ones with it.
            complete = next((entry for entry in reversed(self._queue) if entry.add(channel)), None)
            return [] if complete is None else self._complete(complete)
        aborted = [entry.abort(FailureReason.DECLINED_INPUT_END_OF_STREAM) for entry in self._queue]
        self._queue.clear()
        return [action for actions in aborted for action in actions]

    def _complete(self, tracked: _Tracked) -> list[Action]:
        while self._queue.popleft() is not tracked:
            pass
        if tracked.aborted or tracked.barrier is None:
            return []
        return [EndAlignment(tracked.checkpoint_id), tracked.barrier.snapshot()]
