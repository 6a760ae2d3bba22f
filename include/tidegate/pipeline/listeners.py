"""A pipeline's listeners, each with what it was notified of. DAG parsing, all steps in a process and a region share
them."""

from threading import RLock
from typing import Any

from tidegate.ports import CheckpointListener


class InOrder:
    """One listener. It is notified of completions in the order of their ids, once each as far as this process knows.

    A failure carries the latest completed checkpoint. The listener is notified of that first, if it was not yet. This
    makes up for a completion that another process reported, or that was lost with a process.
    """

    def __init__(self, listener: CheckpointListener) -> None:
        self.name = type(listener).__name__
        self._listener = listener
        self._completed = self._subsumed = 0  # the newest notified so far; ids begin at 1
        self._lock = RLock()  # a listener may itself take a step that notifies it

    def __deepcopy__(self, memo: dict[int, Any]) -> "InOrder":
        """Airflow copies DAGs with all that is in them; a copy must still notify this one listener."""
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
