"""A pipeline's listeners, each with what it was told: DAG parse, every step in a process and a region share them."""

from threading import RLock
from typing import Any

from tidegate.ports import CheckpointListener


class InOrder:
    """One listener, told of completions in the order of their ids and of each once, as far as this process knows.

    A failure carries the latest completed checkpoint: if that was not heard of, it is told first, which makes up for a
    completion that another process told, or that was lost with one.
    """

    def __init__(self, listener: CheckpointListener) -> None:
        self.name = type(listener).__name__
        self._listener = listener
        self._completed = self._subsumed = 0  # the newest told so far; ids begin at 1
        self._lock = RLock()  # a listener may itself take a step that tells it something

    def __deepcopy__(self, memo: dict[int, Any]) -> "InOrder":
        """Airflow copies DAGs with all that is in them; there is still only this one listener to tell."""
        return self

    def completed(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._completed:
                self._listener.notify_checkpoint_complete(checkpoint_id)
                self._completed = max(self._completed, checkpoint_id)

    def aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        with self._lock:
            self._listener.notify_checkpoint_aborted(checkpoint_id, latest_completed)

    def subsumed(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._subsumed:
                self._listener.notify_checkpoint_subsumed(checkpoint_id)
                self._subsumed = max(self._subsumed, checkpoint_id)
