"""The base of all steps of a checkpoint as Airflow tasks: it finds the pipeline, and turns errors into outcomes.

A step that fails for good aborts the checkpoint at once, with the real cause, which only the step knows. If the process
died before it could, the `abort` task does it.
"""

import logging
import signal
from abc import abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowFailException

from tidegate.airflow.callbacks import CallbackNotifier, Callbacks
from tidegate.airflow.links import CheckpointLink
from tidegate.airflow.outcome import cause_of, is_final
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointHeldError,
    ConfigurationError,
    StoreUnavailableError,
    SupersededAttemptError,
    ValidationFailedError,
)
from tidegate.protocol.steps.verdicts import failed_expectations
from tidegate.protocol.text.causes import causes_of
from tidegate.protocol.text.installed import not_installed

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator

log = logging.getLogger("tidegate")

#: The return value of the task `trigger` in the same DAG run.
TRIGGERED_ID = "{{ ti.xcom_pull(task_ids='trigger') }}"


class CheckpointTask(BaseOperator):
    """A task that works on checkpoints of a pipeline.

    Args:
        pipeline: The pipeline's definition, or `"module:attribute"`, which is resolved when the task runs.
        callbacks: The callbacks that the DAG's author has set.
        **kwargs: The arguments of `BaseOperator`.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (CheckpointLink(),)

    def __init__(self, *, pipeline: Pipeline | str, callbacks: Callbacks | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("do_xcom_push", False)
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.callbacks = callbacks or Callbacks()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Share the pipeline with copies of the task. Airflow copies DAGs, but a pipeline may hold objects (a listener,
        a connection) that do not support copying and must stay the user's own.
        """
        memo[id(self.pipeline)] = self.pipeline
        return cast(Self, super().__deepcopy__(memo))

    def resolve_pipeline(self) -> Pipeline:
        """Return the pipeline.

        Raises:
            ConfigurationError: If the name leads nowhere.
            PipelineNotFoundError: If there is no such pipeline.
        """
        if isinstance(self.pipeline, Pipeline):
            return self.pipeline
        # Imported here, as in every operator: DAG files are parsed often, and the modules that run a step take seconds
        # to import.
        from tidegate.assembly import load_pipeline

        return load_pipeline(self.pipeline)

    def pre_execute(self, context: Context) -> None:
        if _is_test(context):  # otherwise the task runner's handler keeps SIGTERM from ending the process
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def linked_checkpoint(self) -> int | None:
        """The checkpoint that the task's button leads to, if the task knows it."""
        return None

    @contextmanager
    def open_coordinator(self, context: Context) -> "Iterator[CheckpointCoordinator]":
        """Open a coordinator that calls the DAG's callbacks. Its figures are sent at the end, before the task's process
        exits.
        """
        from tidegate.airflow.stats import airflow_meters
        from tidegate.assembly import open_coordinator

        notifiers_ = [CallbackNotifier(self.callbacks, context)]
        coordinator = open_coordinator(self.resolve_pipeline(), notifiers=notifiers_, meters=airflow_meters())
        try:
            yield coordinator
        finally:
            coordinator.reporting.flush()


class CheckpointStep(CheckpointTask):
    """A step of one checkpoint.

    `take_step` does the work. An error that a retry would only repeat fails the task at once; any other is left to
    Airflow's retries. When no retry is left, the checkpoint is aborted with that error as its cause.

    Args:
        checkpoint_id: The checkpoint's id. By default, the one that the task `trigger` returned.
    """

    template_fields = ("checkpoint_id",)

    def __init__(self, *, checkpoint_id: int | str = TRIGGERED_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checkpoint_id = checkpoint_id
        self._stopped = False

    @abstractmethod
    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> Any:
        """Do the step. It may be repeated, and raises `CheckpointError` and errors of the libraries below."""

    def execute(self, context: Context) -> Any:
        return self.run_step(context)

    def run_step(self, context: Context) -> Any:
        """Call `take_step`, and turn its errors into Airflow's outcomes."""
        with airflow_outcome(context):
            checkpoint_id = self.rendered_id()
            with self.open_coordinator(context) as coordinator:
                try:
                    return self.take_step(coordinator, checkpoint_id, context)
                except Exception as error:
                    if is_final(error, _tries(context)) or (_is_last_try(context) and not self._stopped):
                        self._abort(coordinator, checkpoint_id, error)
                    raise

    def rendered_id(self) -> int:
        """Return the checkpoint's id.

        Raises:
            ConfigurationError: If there is none.
        """
        try:
            return int(self.checkpoint_id)
        except ValueError as error:
            raise ConfigurationError(
                f"Task {self.task_id} was given {self.checkpoint_id!r} as its checkpoint, but needs the id that a "
                "TriggerCheckpointOperator returns. Nothing was changed. Name that task 'trigger', or pass "
                "checkpoint_id=<task>.output. If that task was marked by hand, or its XCom was deleted, clear it: it "
                "returns the id of the same checkpoint."
            ) from error

    def linked_checkpoint(self) -> int | None:
        text = str(self.checkpoint_id)
        return int(text) if text.isdecimal() else None

    def _abort(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, error: Exception) -> None:
        """Abort the checkpoint, unless it has ended.

        If the cause cannot be recorded, the task `abort` tries again. A checkpoint that a later attempt has taken over
        is left to that attempt, and a held one to its approval.
        """
        if isinstance(error, CheckpointHeldError | StoreUnavailableError | SupersededAttemptError):
            return
        try:
            coordinator.abort(checkpoint_id, *cause_of(self.task_id, error))
        except CheckpointError as second:
            self.log.warning("The cause could not be recorded with checkpoint %s: %s", checkpoint_id, second)


@contextmanager
def airflow_outcome(context: Context) -> Iterator[None]:
    """Fail the task at once for errors that a retry would only repeat; leave the others to Airflow's retries.

    An interrupt of `airflow dags test` fails the task too, because it would otherwise only begin the next try. `abort`
    then ends the checkpoint. The cause of an error is logged, and not part of the raised one.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if not _is_test(context):
            raise
        raise AirflowFailException("Interrupted. The checkpoint in progress is aborted.") from error
    except CheckpointError as error:
        _log_what_failed(error)
        _log_causes(error)
        if is_final(error, _tries(context)):
            raise AirflowFailException(str(error)) from None
        raise error from None  # Airflow logs the whole chain, with Java's stacks
    except ModuleNotFoundError as error:
        if missing := not_installed(error.name):
            raise AirflowFailException(str(missing)) from None
        raise


def _log_what_failed(error: CheckpointError) -> None:
    """Log each failed expectation of a validation, and the location of the report."""
    if not isinstance(error, ValidationFailedError):
        return
    for failed in failed_expectations(error.verdicts):
        log.warning("%s", failed)
    if path := next((verdict.docs_path for verdict in error.verdicts if verdict.docs_path), None):
        from tidegate.settings import Settings
        from tidegate.ui.urls import docs_url

        log.warning("Report: %s, on the pages %s", Settings.from_environment().docs / path, docs_url(path))


def _log_causes(error: CheckpointError) -> None:
    """Log the causes in a group, which Airflow shows collapsed."""
    if causes := causes_of(error):
        log.info("::group::Causes")
        for cause in causes:
            log.info("%s", cause)
        log.info("::endgroup::")


def _is_test(context: Context) -> bool:
    """Whether `airflow dags test` or `dag.test()` runs the task in its own process, without a supervisor."""
    return context["dag_run"].triggering_user_name == "dag_test"


def _tries(context: Context) -> int:
    """Return the number of the try since the task was last cleared. It is at least 1, even if the DAG has fewer retries
    now than when this task instance was created.
    """
    ti, task = context["ti"], context["task"]
    return max(1, int(ti.try_number) - max(0, int(ti.max_tries) - int(task.retries or 0)))


def _is_last_try(context: Context) -> bool:
    ti = context["ti"]
    return int(ti.try_number) > int(ti.max_tries)
