"""Aborts the checkpoint of a DAG run that has not completed it, however the run ended.

If a run is marked by hand, Airflow skips or fails its tasks and calls no code. Only a teardown task still runs, so
`abort` is one. It aborts the DAG run's own request, so it needs no data from another task.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidegate.airflow.actions import ended_by_hand
from tidegate.airflow.request import request_id
from tidegate.airflow.step import CheckpointTask, airflow_outcome
from tidegate.protocol.facts.lifecycle import COMMITTED
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord

_NOT_DONE = {TaskInstanceState.FAILED, TaskInstanceState.UPSTREAM_FAILED, TaskInstanceState.SKIPPED}


class AbortCheckpointOperator(CheckpointTask):
    """Aborts the request of its DAG run, if that has not completed. A completed checkpoint is left alone.

    Place it downstream of the steps before the commit point: it runs when they have ended. It is skipped if all went
    well. After a failure it succeeds, because the failed step already fails the DAG run. If steps were skipped although
    a checkpoint was requested, they were marked by hand; then it fails, and with it the DAG run, which would otherwise
    count as a success.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.as_teardown(on_failure_fail_dagrun=True)

    def execute(self, context: Context) -> None:
        states = self._states_of_steps(context)
        failed = sorted(task for task, state in states.items() if state == TaskInstanceState.FAILED)
        by_hand = TaskInstanceState.SKIPPED in states.values() or not failed
        reason, message = _cause(context["run_id"], failed, by_hand)
        with airflow_outcome(context), self.open_coordinator(context) as coordinator:
            action = ended_by_hand(context) if by_hand else None
            record = coordinator.abort_request(request_id(context), reason, message, action)
            coordinator.reporting.deliver()  # reports a failure that a killed step recorded without a notification
        if record is None and not failed and TaskInstanceState.SUCCESS not in states.values():
            raise AirflowSkipException("This DAG run requested no checkpoint, so there is none to abort.")
        if record is not None and record.status in COMMITTED and _NOT_DONE.isdisjoint(states.values()):
            raise AirflowSkipException(f"Checkpoint {record.checkpoint_id} has completed; there is nothing to abort.")
        if by_hand and TaskInstanceState.UPSTREAM_FAILED not in states.values():
            raise AirflowFailException(f"This DAG run was ended by hand. {_outcome(record)}")
        self.log.error("%s", _outcome(record))

    def _states_of_steps(self, context: Context) -> Mapping[str, str]:
        """Return the state of every step of the DAG run, before the commit point and after it."""
        ti, dag = context["ti"], context["dag"]
        steps = [
            task.task_id for task in dag.tasks if isinstance(task, CheckpointTask) and task.task_id != self.task_id
        ]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=sorted(steps), run_ids=[ti.run_id])
        return dict(states.get(ti.run_id, {}))


def _cause(run_id: str, failed: list[str], by_hand: bool) -> tuple[FailureReason, str]:
    """Return the reason and message for a checkpoint that has not ended yet. Only a task that failed by itself may be a
    subtask's fault.
    """
    if by_hand:
        return FailureReason.COORDINATOR_SUSPEND, (
            f"DAG run {run_id} was ended by hand before the checkpoint was complete. Committed data and the latest "
            "completed checkpoint are untouched; the next checkpoint takes the same data."
        )
    return FailureReason.TASK_FAILURE, (
        f"Task {', '.join(failed)} failed for good and recorded no cause; see the log of the task."
    )


def _outcome(record: CheckpointRecord | None) -> str:
    if record is None:
        return "It had no checkpoint yet, and its request is withdrawn."
    if record.status in COMMITTED:
        return (
            f"Checkpoint {record.checkpoint_id} had already passed its commit point, so it stands. The next run makes "
            "its rows visible; so does this one if it is cleared."
        )
    assert record.failure_reason is not None  # it was in progress, and no longer is
    return f"Checkpoint {record.checkpoint_id} was aborted: {record.failure_reason.name}. {record.failure_message}"
