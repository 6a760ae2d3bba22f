"""The steps of a subtask for a checkpoint, their order, and the effects of notifications: protocol.md sections 10 and
12.

The subtask carries out one answer at a time and reports `StepDone`. So an abort that arrives between two steps takes
effect before the next begins. Until the barrier has gone downstream, an abort sends a cancel marker in its place.
Afterwards it discards the snapshot. Once everything is written and captured, it has no effect any more.

Section 12's steps 2b and 3 do not exist here: an operator's output has one queue, at the receiving gate, which keeps
the timer and captures the queued data. An error in a synchronous step is no event: it ends the region.
"""

from collections import deque
from enum import Enum, auto
from typing import assert_never

from tidegate.protocol.barriers.messages import BarrierOptions
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
    Effect,
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
    SubtaskEvent,
    WriteEnded,
    WriteFailed,
)


class _Step(Enum):
    """The progress of a snapshot. The steps before WRITE are synchronous: one checkpoint at a time."""

    PREPARE = auto()
    BROADCAST = auto()
    SNAPSHOT = auto()
    WRITE = auto()


class _Running:
    """A snapshot that was neither completed nor discarded. Only the first of the two removes it from the running ones,
    which is section 12's compare-and-set."""

    def __init__(self, options: BarrierOptions) -> None:
        self.options = options
        self.step = _Step.PREPARE
        self.writing = True
        self.capturing = options.unaligned


class SubtaskSteps:
    """The steps of one attempt of a running subtask. It remembers at most `max_concurrent_checkpoints` aborted ones."""

    def __init__(self, max_concurrent_checkpoints: int = 1) -> None:
        self._last_started = -1
        self._last_completed = -1
        self._stop_with = -1  # the savepoint after which the subtask ends
        self._running: dict[int, _Running] = {}
        self._bound = max_concurrent_checkpoints
        self._aborted: deque[int] = deque(maxlen=max_concurrent_checkpoints)  # aborted before they started here
        self._newest_aborted = -1

    def step(self, event: SubtaskEvent) -> list[Effect]:
        """Take one event, and return the effects in the order in which they must be carried out. Performs no I/O."""
        match event:
            case Begin():
                return self._begin(event)
            case StepDone():
                return self._step_done(event.checkpoint_id)
            case CaptureEnded():
                return self._capture_ended(event.checkpoint_id)
            case WriteEnded():
                return self._write_ended(event.checkpoint_id)
            case WriteFailed():
                return self._write_failed(event.checkpoint_id, event.reason)
            case AlignmentAborted():
                return self._alignment_aborted(event.checkpoint_id, event.reason)
            case NotifyComplete():
                return self._complete(event.checkpoint_id, event.subsumed)
            case NotifyAborted():
                return self._abort(event.checkpoint_id, event.latest_completed)
            case _:
                assert_never(event)

    # -- section 12

    def _begin(self, event: Begin) -> list[Effect]:
        id_ = event.checkpoint_id
        aborted = self._forget_abort(id_)
        if id_ <= self._last_started:
            return []  # out of order
        self._last_started = id_
        if aborted:
            return [BroadcastCancel(id_), AbortCapture(id_), *([Fail(id_)] if event.last else [])]
        assert all(other.step is _Step.WRITE for other in self._running.values()), "synchronous steps do not overlap"
        if event.last:
            self._stop_with = id_
        self._running[id_] = _Running(event.options)
        return [Prepare(id_)]

    def _step_done(self, id_: int) -> list[Effect]:
        running = self._running.get(id_)
        if running is None:
            return []  # aborted while the step was carried out
        match running.step:
            case _Step.PREPARE:
                running.step = _Step.BROADCAST
                return [BroadcastBarrier(id_, running.options.unaligned_capable())]
            case _Step.BROADCAST:
                running.step = _Step.SNAPSHOT
                return [SnapshotOperators(id_)]
            case _Step.SNAPSHOT:
                running.step = _Step.WRITE
                return []
            case _Step.WRITE:
                raise ValueError(f"checkpoint {id_} has no synchronous step left")
            case _:
                assert_never(running.step)

    def _capture_ended(self, id_: int) -> list[Effect]:
        if id_ in self._running:
            self._running[id_].capturing = False
        return self._acknowledge_if_complete(id_)

    def _write_ended(self, id_: int) -> list[Effect]:
        if id_ in self._running:
            self._running[id_].writing = False
        return self._acknowledge_if_complete(id_)

    def _write_failed(self, id_: int, reason: FailureReason | None) -> list[Effect]:
        if id_ not in self._running:
            return []
        return [*self._discard(id_), Decline(id_, reason or FailureReason.CHECKPOINT_ASYNC_EXCEPTION)]

    def _alignment_aborted(self, id_: int, reason: FailureReason) -> list[Effect]:
        """Decline, abort the snapshot and pass a cancel marker on, as on any abort (section 11.1)."""
        self._last_started = max(self._last_started, id_)
        discarded = self._discard(id_) if id_ in self._running else []
        return [*discarded, Decline(id_, reason), BroadcastCancel(id_), *self._fail_if_stopping(id_)]

    def _acknowledge_if_complete(self, id_: int) -> list[Effect]:
        running = self._running.get(id_)
        if running is None or running.writing or running.capturing:
            return []
        del self._running[id_]
        return [Acknowledge(id_)]

    def _discard(self, id_: int) -> list[Effect]:
        running = self._running.pop(id_)
        capture: list[Effect] = [AbortCapture(id_)] if running.options.unaligned else []
        snapshot: list[Effect] = [DiscardSnapshot(id_)] if running.step in (_Step.SNAPSHOT, _Step.WRITE) else []
        return capture + snapshot

    # -- section 10

    def _complete(self, id_: int, subsumed: int = -1) -> list[Effect]:
        """Complete a checkpoint. Ids only grow, so that duplicates and reordering are safe."""
        if id_ <= self._last_completed:
            return []
        self._last_completed = id_
        effects: list[Effect] = [ForwardComplete(id_)]
        if subsumed > 0:
            effects.append(ForwardSubsumed(subsumed))
        if id_ == self._stop_with:
            self._stop_with = -1
            effects.append(Finish(id_))
        return effects

    def _abort(self, id_: int, latest_completed: int) -> list[Effect]:
        effects = self._complete(latest_completed) if latest_completed > 0 else []
        running = self._running.get(id_)
        if running is not None:
            if running.step is _Step.PREPARE:  # downstream has no barrier yet, and will get none
                effects.append(BroadcastCancel(id_))
            effects += self._discard(id_)
        elif id_ > self._last_started:
            self._remember_abort(id_)
        return [*effects, ForwardAborted(id_), *self._fail_if_stopping(id_)]

    def _remember_abort(self, id_: int) -> None:
        if id_ not in self._aborted:
            self._aborted.append(id_)
        self._newest_aborted = max(self._newest_aborted, id_)

    def _forget_abort(self, id_: int) -> bool:
        """Forget an abort, and return whether the checkpoint was aborted before it started here. One too old to be
        remembered counts as aborted."""
        if id_ in self._aborted:
            self._aborted.remove(id_)
            return True
        return id_ < self._newest_aborted - self._bound

    def _fail_if_stopping(self, id_: int) -> list[Effect]:
        """Fail a subtask that was to stop with this savepoint: it has stopped emitting, and cannot go on without it
        (section 18)."""
        return [Fail(id_)] if id_ == self._stop_with else []
