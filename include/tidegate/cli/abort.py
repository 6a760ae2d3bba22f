"""`tidegate abort`: one checkpoint is aborted by hand, and the pipeline goes on."""

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore
from tidegate.protocol.errors import CheckpointCompletedError
from tidegate.protocol.lifecycle import COMMITTED, Status
from tidegate.protocol.reasons import FailureReason

#: As when a checkpoint scheduler is stopped and started again: it counts as no failure, and a pipeline that was to stop
#: with this savepoint runs on.
REASON = FailureReason.COORDINATOR_SUSPEND
MESSAGE = (
    "It was aborted by hand, with `tidegate abort`. Committed data and the latest completed checkpoint are untouched; "
    "the next checkpoint takes the same data."
)


def abort(coordinator: CheckpointCoordinator, store: CheckpointStore, checkpoint_id: int | None) -> str:
    """Aborts the checkpoint, or the one in progress if none is named. Returns what became of it. May be repeated.

    Raises `CheckpointNotFoundError`, and `CheckpointCompletedError` for one that has completed.
    """
    name = coordinator.pipeline_id
    if checkpoint_id is None:
        newest = store.history(name, 1)
        if not newest or newest[0].status is not Status.IN_PROGRESS:
            return f"Pipeline {name} has no checkpoint in progress. Nothing was changed."
        checkpoint_id = newest[0].checkpoint_id
    record = coordinator.abort(checkpoint_id, REASON, MESSAGE)
    if record.status in COMMITTED:
        raise CheckpointCompletedError(
            f"Checkpoint {checkpoint_id} of pipeline {name} completed at {record.completed_at:%Y-%m-%d %H:%M:%S} UTC "
            "and can no longer be aborted: its rows are visible, or become visible with the next checkpoint. Nothing "
            f"was changed. `tidegate restore {name}` goes back to an earlier checkpoint."
        )
    assert record.failure_reason is not None  # what was in progress is no longer
    return (
        f"Checkpoint {checkpoint_id} of pipeline {name} is FAILED: {record.failure_reason.name}. "
        f"{record.failure_message}"
    )
