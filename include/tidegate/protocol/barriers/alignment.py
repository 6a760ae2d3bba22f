"""State of the single checkpoint that an exactly-once handler works on: its awaited and its blocked channels.

The handlers of protocol.md sections 11.1, 11.4 and 11.5 share it. They agree on the meaning of obsolete, newer,
cancelled and finished, and differ in their actions.
"""

from tidegate.protocol.barriers.messages import Action, Barrier, Block, Unblock


class Alignment:
    """The state of section 11: `current` is the newest checkpoint seen, `aligned` the channels whose barrier or end has
    arrived."""

    def __init__(self, num_channels: int) -> None:
        self.current = -1
        self.barrier = Barrier(-1, -1)  # the first one of the current checkpoint
        self.aligned: set[int] = set()
        self._done = -1  # newest checkpoint completed or aborted
        self._target = 0  # channels that were open when the current one began
        self._num_channels = num_channels
        self._closed: set[int] = set()
        self._blocked: set[int] = set()

    @property
    def pending(self) -> bool:
        return self.current >= 0 and self.current != self._done

    @property
    def complete(self) -> bool:
        return len(self.aligned) >= self._target

    def is_obsolete(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self.current or (checkpoint_id == self.current and not self.pending)

    def begin(self, barrier: Barrier) -> None:
        """Begin with a checkpoint's first barrier or its announcement. A channel that closed before is not awaited."""
        self.current = barrier.checkpoint_id
        self.barrier = barrier
        self._target = self._num_channels - len(self._closed)

    def end(self, checkpoint_id: int) -> None:
        """End a checkpoint that completed or was aborted. One newer than the current may be aborted before its first
        barrier."""
        self.current = self._done = checkpoint_id
        self.aligned.clear()

    def close(self, channel: int) -> bool:
        """Close the channel, and return whether it was open until now."""
        was_open = channel not in self._closed
        self._closed.add(channel)
        return was_open

    def block(self, channel: int) -> list[Action]:
        """Block the channel. A single channel never blocks, because its own barrier is the last one."""
        if self._num_channels == 1 or channel in self._blocked:
            return []
        self._blocked.add(channel)
        return [Block(channel)]

    def unblock(self, channel: int) -> list[Action]:
        if channel not in self._blocked:
            return []
        self._blocked.remove(channel)
        return [Unblock(channel)]

    def unblock_all(self) -> list[Action]:
        released: list[Action] = [Unblock(channel) for channel in sorted(self._blocked)]
        self._blocked.clear()
        return released
