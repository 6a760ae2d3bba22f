"""The sensor that waits for every subtask's acknowledgement, and enforces the checkpoint's deadline."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context

from tidegate.airflow.operators import SnapshotOperator
from tidegate.airflow.step import CheckpointStep
from tidegate.airflow.triggers import AcknowledgeTrigger
from tidegate.protocol.facts.errors import StoreUnavailableError
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.reasons import FailureReason

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator


class AcknowledgeCheckpointSensor(CheckpointStep, BaseSensorOperator):
    """Succeeds when all subtasks have acknowledged; fails with the recorded cause when the checkpoint has ended.

    It waits for a database that cannot be reached. The deadline is the checkpoint's own; `timeout` need not be set.
    Downstream of the snapshot task it does not wait in vain: if that task was marked by hand, and no continuous region
    takes the missing snapshots, the checkpoint is aborted at once.

    Args:
        deferrable: Whether it waits in the triggerer. Otherwise `mode` applies as for any sensor.
        poke_interval: The seconds between two polls.
    """

    def __init__(self, *, deferrable: bool = True, poke_interval: float = 5.0, **kwargs: Any) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.deferrable = deferrable

    def execute(self, context: Context) -> None:
        if self.deferrable:
            self.poll(context)
        else:
            BaseSensorOperator.execute(self, context)

    def poll(self, context: Context, event: object = None) -> None:
        """Poll, and defer if it is too early. The trigger's reading is not trusted."""
        if self.poke(context):
            return
        self.defer(
            trigger=AcknowledgeTrigger(self.resolve_pipeline().name, self.rendered_id(), self.poke_interval),
            method_name="poll",
        )

    def poke(self, context: Context) -> bool:
        try:
            return bool(self.run_step(context))
        except StoreUnavailableError as error:
            self.log.warning("Still waiting: %s", error)
            return False

    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> bool:
        record = coordinator.acknowledge(checkpoint_id)
        self.log.info("%s of %s subtasks have acknowledged.", record.num_acknowledged, record.num_subtasks)
        if record.phase is Phase.TRIGGERED and self._follows_snapshot() and not coordinator.has_live_region():
            message = (
                f"Only {record.num_acknowledged} of {record.num_subtasks} subtasks have acknowledged checkpoint "
                f"{checkpoint_id}, and nothing takes the other snapshots: the snapshot task has ended, perhaps marked "
                "by hand, and no continuous region is running. Committed data is untouched. Clear the DAG "
                "run."
            )
            coordinator.abort(checkpoint_id, FailureReason.COORDINATOR_SUSPEND, message)
            record = coordinator.acknowledge(checkpoint_id)
        return record.phase is not Phase.TRIGGERED

    def _follows_snapshot(self) -> bool:
        return any(isinstance(task, SnapshotOperator) for task in self.get_flat_relatives(upstream=True))
