"""How much an operator of a continuous region takes at a time: what it processes in somewhat less than a second.

Rows behind a micro-batch wait for it, and so does a barrier. But each micro-batch has a cost of its own, so a backlog
in many small ones takes longer. Flink sizes its buffers by time as well (`taskmanager.network.memory.buffer-debloat`).
"""

#: Seconds that a micro-batch should take.
TARGET = 0.8

#: Where the least that a micro-batch takes is longer, the target is so many times that: else all of it would be cost.
_TIMES_LEAST = 1.5

#: Bytes with which an operator begins, and below which it does not go.
_LEAST = 1 << 18


class BatchSize:
    """Of one operator, in bytes of input. It follows what micro-batches have taken, and is never above `most`."""

    def __init__(self, most: int) -> None:
        self.bytes = min(_LEAST, most)
        self._most = most
        self._quickest: float | None = None

    def took(self, size: int, seconds: float) -> None:
        """A micro-batch of this size has been processed. One that took little because little was there says nothing of
        larger ones."""
        self._quickest = seconds if self._quickest is None else min(seconds, self._quickest)
        target = max(TARGET, _TIMES_LEAST * self._quickest)
        if seconds <= target and size < self.bytes // 2:
            return
        fitting = size * target / seconds if seconds > 0 else 2 * self.bytes
        self.bytes = min(max(round(fitting), self.bytes // 2, _LEAST), 2 * self.bytes, self._most)
