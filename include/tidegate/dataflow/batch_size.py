"""The size of the micro-batches of an operator in a continuous region, chosen so that one takes less than a second.

Rows behind a micro-batch wait for it, and so does a barrier. But each micro-batch has a fixed cost, so many small ones
take longer over a backlog. Flink sizes its buffers by time as well (`taskmanager.network.memory.buffer-debloat`).
"""

#: Seconds that a micro-batch should take.
TARGET = 0.8

#: A lower bound of the target, as a multiple of the quickest micro-batch. With a smaller one, only fixed cost would
#: remain.
_TIMES_LEAST = 1.5

#: The first size in bytes, and the smallest.
_LEAST = 1 << 18


class BatchSize:
    """The size of one operator's micro-batches, in bytes of input. It follows the measured times and never exceeds
    `most`."""

    def __init__(self, most: int) -> None:
        self.bytes = min(_LEAST, most)
        self._most = most
        self._quickest: float | None = None

    def took(self, size: int, seconds: float) -> None:
        """Record the time of a micro-batch of this size. A short time for little input tells nothing about larger
        ones."""
        self._quickest = seconds if self._quickest is None else min(seconds, self._quickest)
        target = max(TARGET, _TIMES_LEAST * self._quickest)
        if seconds <= target and size < self.bytes // 2:
            return
        fitting = size * target / seconds if seconds > 0 else 2 * self.bytes
        self.bytes = min(max(round(fitting), self.bytes // 2, _LEAST), 2 * self.bytes, self._most)
