"""Aligned, exactly-once barrier handling of one operator's inputs: every branch of protocol.md section 11.1.

The handler sees the control events of the operator's channels, in the order the gate takes them, and answers with what
the gate must do. It holds no data and no channel; blocking is the gate's affair.
"""

from dataclasses import dataclass

from tidegate.protocol.reasons import FailureReason


@dataclass(frozen=True, slots=True)
class Barrier:
    """What lies before it in the channel belongs to the checkpoint, what comes after does not."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The upstream gave the checkpoint up."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing will follow in this channel."""

    channel: int


Event = Barrier | Cancel | EndOfPartition


@dataclass(frozen=True, slots=True)
class Block:
    channel: int


@dataclass(frozen=True, slots=True)
class Unblock:
    channel: int


@dataclass(frozen=True, slots=True)
class StartAlignment:
    """The first barrier of a checkpoint is here: start delay ends, alignment begins."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Alignment ended. To be carried out before any later action of the same answer."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """Decline to the coordinator, abort what was begun, and pass a cancel marker downstream."""

    checkpoint_id: int
    reason: FailureReason


Action = Block | Unblock | StartAlignment | TakeSnapshot | AbortSnapshot


class AlignedBarrierHandler:
    """One operator's alignment. `checkpoints_after_tasks_finish` is protocol.md section 13's switch, on by default."""

    def __init__(self, num_channels: int, checkpoints_after_tasks_finish: bool = True) -> None:
        self._num_channels = num_channels
        self._finished_count_as_aligned = checkpoints_after_tasks_finish
        self._current = -1  # newest checkpoint seen
        self._done = -1  # newest checkpoint completed or aborted
        self._target = 0  # channels that were open when the current one began
        self._aligned: set[int] = set()
        self._blocked: set[int] = set()
        self._closed: set[int] = set()

    def step(self, event: Event) -> list[Action]:
        """Take one control event; returns the actions in the order they must be carried out."""
        match event:
            case Barrier():
                return self._barrier(event.checkpoint_id, event.channel)
            case Cancel():
                return self._cancel(event.checkpoint_id)
            case EndOfPartition():
                return self._end_of_partition(event.channel)

    @property
    def _pending(self) -> bool:
        return self._current >= 0 and self._current != self._done

    def _barrier(self, checkpoint_id: int, channel: int) -> list[Action]:
        if checkpoint_id < self._current or (checkpoint_id == self._current and not self._pending):
            return self._unblock({channel})
        actions: list[Action] = []
        if checkpoint_id > self._current:
            if self._pending:
                actions += self._abort(FailureReason.DECLINED_SUBSUMED)
            self._current = checkpoint_id
            self._target = self._num_channels - len(self._closed)
        if not self._aligned:
            actions.append(StartAlignment(checkpoint_id))
        if self._num_channels > 1 and channel not in self._blocked:  # a single channel never blocks
            self._blocked.add(channel)
            actions.append(Block(channel))
        self._aligned.add(channel)
        return actions + self._complete_if_aligned()

    def _cancel(self, checkpoint_id: int) -> list[Action]:
        aligning = checkpoint_id == self._current and bool(self._aligned)
        if checkpoint_id <= self._current and not aligning:
            return []
        # An older checkpoint that was aligning goes without a word: the abort is told for the newer one only.
        self._current = checkpoint_id
        return self._abort(FailureReason.DECLINED_ON_CANCELLATION_BARRIER)

    def _end_of_partition(self, channel: int) -> list[Action]:
        if channel in self._closed:
            return []
        self._closed.add(channel)
        if not self._pending:
            return []
        if not self._finished_count_as_aligned:
            return self._abort(FailureReason.DECLINED_INPUT_END_OF_STREAM)
        self._aligned.add(channel)  # a set: barrier and end of the same channel count once
        return self._unblock({channel}) + self._complete_if_aligned()

    def _complete_if_aligned(self) -> list[Action]:
        if len(self._aligned) < self._target:
            return []
        self._done = self._current
        self._aligned.clear()
        return [TakeSnapshot(self._current), *self._unblock(set(self._blocked))]

    def _abort(self, reason: FailureReason) -> list[Action]:
        self._done = self._current
        self._aligned.clear()
        return [*self._unblock(set(self._blocked)), AbortSnapshot(self._current, reason)]

    def _unblock(self, channels: set[int]) -> list[Action]:
        released = sorted(channels & self._blocked)
        self._blocked -= channels
        return [Unblock(channel) for channel in released]
