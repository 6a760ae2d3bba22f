"""Requests the checkpoint of a DAG run, and reads the run's parameters."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.airflow.actions import action_of, drains, require_drain
from tidegate.airflow.step import CheckpointTask, airflow_outcome
from tidegate.airflow.triggers import RequestTrigger
from tidegate.protocol.facts.errors import (
    ConfigurationError,
    IllegalRequestError,
)
from tidegate.protocol.facts.names import requests_of_run
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import kind_of_request
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered
from tidegate.settings import absolute

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol


class TriggerCheckpointOperator(CheckpointTask):
    """Requests a checkpoint and returns its id. If the request is dropped, the task and so the DAG run are skipped.

    The DAG run is the request. Repeated, it gets the same checkpoint while that is in progress or after it has
    completed, and a new one after it has failed. Only scheduled runs are periodic and must respect the minimum pause. A
    DAG run with the parameter `kind` SAVEPOINT precedes all others, and one with SYNC_SAVEPOINT stops the pipeline.
    Only the pages start one that stops it for good (`protocol.observing.draining`).

    Args:
        wait: Whether a request that cannot start yet waits in the triggerer. Otherwise it is dropped.
        poll_interval: The seconds between two polls of the triggerer, which also polls after each commit.
    """

    def __init__(self, *, wait: bool = True, poll_interval: float = 5.0, **kwargs: Any) -> None:
        super().__init__(**{"do_xcom_push": True, **kwargs})
        self.wait = wait
        self.poll_interval = poll_interval
        self._triggered: int | None = None

    def execute(self, context: Context) -> int:
        return self.ask(context)

    def linked_checkpoint(self) -> int | None:
        return self._triggered

    def ask(self, context: Context, event: object = None) -> int:
        """Request the checkpoint, again if need be. The trigger's reading is not trusted."""
        with airflow_outcome(context):
            request = request_id(context), _is_periodic(context), _kind(context)
            with self.open_coordinator(context) as coordinator:
                if is_canonical(context):
                    coordinator.exporting.require_possible(directory_of(context))
                if drains(context) and request[2] is CheckpointKind.SYNC_SAVEPOINT:
                    require_drain(coordinator, context, request[0])
                outcome = coordinator.trigger(
                    *request,
                    wait=self.wait,
                    drain=drains(context),
                    label=_label(context),
                    action=action_of(context, kind_of_request(_kind(context), drains(context))),
                    dag_id=context["ti"].dag_id,
                )
                if isinstance(outcome, AlreadyCompleted):
                    completed = coordinator.acknowledge(outcome.checkpoint_id)
                    if _is_of_a_deleted_run(completed, context["dag_run"]):
                        raise self._taken_before(context, outcome.checkpoint_id)
        match outcome:
            case Queued():
                self.log.info("Waiting: %s", outcome.message)
                waiting = RequestTrigger(self.resolve_pipeline().name, request[0], self.poll_interval)
                self.defer(trigger=waiting, method_name="ask")
            case Dropped():
                self.log.info("Dropped, %s: %s", outcome.reason.name, outcome.message)
                raise AirflowSkipException(f"{outcome.reason.name}: {outcome.message}")
            case Triggered():
                self.log.info("Triggered checkpoint %s.", outcome.checkpoint_id)
            case Resumed():
                self.log.info("This DAG run's checkpoint %s is in progress; continuing with it.", outcome.checkpoint_id)
            case AlreadyCompleted():
                self.log.info("Checkpoint %s has already completed; the steps change nothing.", outcome.checkpoint_id)
        self._triggered = outcome.checkpoint_id
        return outcome.checkpoint_id

    def _taken_before(self, context: Context, checkpoint_id: int) -> IllegalRequestError:
        return IllegalRequestError(
            f"DAG run {context['run_id']} requests its first checkpoint, but checkpoint {checkpoint_id} of pipeline "
            f"{self.resolve_pipeline().name} was already taken for a deleted DAG run with the same id and date. That "
            "checkpoint stands, and nothing was triggered. Start a DAG run by hand, which takes all data that has "
            "arrived since."
        )


def request_id(context: Context) -> str:
    """Return the request's id: the DAG, and the DAG run's id and date, because a deleted DAG run's id may be used
    again.
    """
    of_run = requests_of_run(context["ti"].dag_id, context["run_id"])
    return f"{of_run}{context['dag_run'].run_after:%Y%m%dT%H%M%S.%f}"


def _is_of_a_deleted_run(completed: CheckpointRecord, dag_run: "DagRunProtocol") -> bool:
    """Whether the checkpoint belongs to a deleted DAG run: it completed before this one began.

    The number of tries does not decide, because the first may be lost. Clearing a DAG run begins it again.
    """
    if dag_run.clear_number or dag_run.start_date is None or completed.completed_at is None:
        return False
    return completed.completed_at < dag_run.start_date


def _is_periodic(context: Context) -> bool:
    return context["dag_run"].run_type == "scheduled"


def _kind(context: Context) -> CheckpointKind:
    """Return the kind of checkpoint that the parameters name.

    Raises:
        ConfigurationError: If a parameter names no kind.
    """
    given = (context["params"] or {}).get("kind", CheckpointKind.CHECKPOINT)
    try:
        return CheckpointKind(given)
    except ValueError as error:
        raise ConfigurationError(
            f"The DAG run's parameter kind is {given!r}, but must be one of {', '.join(CheckpointKind)}. Nothing was "
            "triggered. Correct it."
        ) from error


def _label(context: Context) -> Label:
    given = context["params"] or {}
    return Label(given.get("name") or None, given.get("note") or None)


def is_canonical(context: Context) -> bool:
    """Whether a canonical savepoint is requested.

    Raises:
        IllegalRequestError: If the format is set for a checkpoint.
    """
    if (context["params"] or {}).get("format", "native") != "canonical":
        return False
    if _kind(context) is CheckpointKind.CHECKPOINT:
        raise IllegalRequestError(
            "Only a savepoint has a format, because newer checkpoints replace a checkpoint. Nothing was triggered. Set "
            "the parameter kind to SAVEPOINT."
        )
    return True


def directory_of(context: Context) -> str | None:
    given = (context["params"] or {}).get("directory")
    return absolute(given) if given else None
