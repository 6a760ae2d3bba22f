"""Record the acknowledgements of a continuous region in background threads, so that only the checkpoint waits for the
transaction, and rows do not."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.records import Acknowledgement


class Recording:
    """The acknowledgements being recorded. A report that the store does not count belongs to a checkpoint that has
    ended. The region is notified of that by the next read of the store."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator
        self._under_way: list[Future[None]] = []

    def __bool__(self) -> bool:
        """Whether a recording is running, or has ended and its result was not taken."""
        return bool(self._under_way)

    def start(self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], background: Executor) -> None:
        self._under_way.append(background.submit(self._record, checkpoint_id, acknowledgements))

    def take(self) -> bool:
        """Whether any recording has ended since the last call. Raises the error of one that failed."""
        ended = [future for future in self._under_way if future.done()]
        self._under_way = [future for future in self._under_way if future not in ended]
        for future in ended:
            future.result()
        return bool(ended)

    def wait(self) -> None:
        """Wait until all is recorded. Raises the error of a recording that failed."""
        under_way, self._under_way = self._under_way, []
        for future in under_way:
            future.result()

    def _record(self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]) -> None:
        self._coordinator.record_acknowledgements(checkpoint_id, acknowledgements)
