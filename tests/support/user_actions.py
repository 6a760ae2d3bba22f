"""User actions as a command makes them where the pipeline's code is: carried out, and then the garbage is deleted."""

from collections.abc import Callable

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointRecord


def suspend(coordinator: CheckpointCoordinator) -> PipelineRecord:
    record = coordinator.operations.control.suspend()
    coordinator.clean()
    return record


def resume(coordinator: CheckpointCoordinator) -> PipelineRecord:
    """It leaves no garbage."""
    return coordinator.operations.control.resume()


def approve(
    coordinator: CheckpointCoordinator, checkpoint_id: int | None, by: str, comment: str | None = None
) -> CheckpointRecord:
    """It leaves no garbage."""
    return coordinator.operations.holds.approve(checkpoint_id, by, comment)


def reject(
    coordinator: CheckpointCoordinator, checkpoint_id: int | None, by: str, comment: str | None = None
) -> CheckpointRecord:
    record = coordinator.operations.holds.reject(checkpoint_id, by, comment)
    coordinator.clean()
    return record


def dispose(coordinator: CheckpointCoordinator, savepoint: str) -> CheckpointRecord:
    record = coordinator.savepoints.dispose(savepoint)
    coordinator.clean()
    return record


#: What stops a pipeline, and what decides about a held checkpoint, by the words of the commands.
STOPS: dict[str, Callable[[CheckpointCoordinator], PipelineRecord]] = {
    "suspend": suspend,
    "cancel": CheckpointCoordinator.cancel,
}
DECISIONS: dict[str, Callable[..., CheckpointRecord]] = {"approve": approve, "reject": reject}
