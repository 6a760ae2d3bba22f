"""Records what a continuous region has acknowledged, in threads beside the rounds: rows need not wait for a transaction
that only their checkpoint waits for."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.records import Acknowledgement


class Recording:
    """Reports that the store does not count belong to a checkpoint that has ended; a look at the store notifies the
    region of that."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator
        self._under_way: list[Future[None]] = []

    def __bool__(self) -> bool:
        """Whether something is being recorded, or was and nobody has asked what came of it."""
        return bool(self._under_way)

    def start(self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], beside: Executor) -> None:
        self._under_way.append(beside.submit(self._record, checkpoint_id, acknowledgements))

    def take(self) -> bool:
        """Whether anything has been recorded since the last look. Raises the error that prevented it."""
        ended = [each for each in self._under_way if each.done()]
        self._under_way = [each for each in self._under_way if each not in ended]
        for each in ended:
            each.result()
        return bool(ended)

    def wait(self) -> None:
        """Until all is recorded. Raises the error that prevented it."""
        under_way, self._under_way = self._under_way, []
        for each in under_way:
            each.result()

    def _record(self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]) -> None:
        self._coordinator.record_acknowledgements(checkpoint_id, acknowledgements)
