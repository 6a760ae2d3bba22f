"""The buttons on tasks: to the page of their checkpoint, and on a `validate` task to its validation report.

The task itself computes them when it ends, even if it failed. They are relative to Airflow's own address, so they also
work behind a proxy.
"""

from typing import TYPE_CHECKING, Protocol, cast

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from tidegate.pipeline.definition import Pipeline


class Linked(Protocol):
    """A task that works on a checkpoint."""

    def resolve_pipeline(self) -> "Pipeline": ...
    def linked_checkpoint(self) -> int | None:
        """Return the checkpoint's id; None if the task does not know it."""
        ...


class CheckpointLink(BaseOperatorLink):
    @property
    def name(self) -> str:
        return "Checkpoint"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the checkpoint, or of all requests of the DAG run if the task does not know its
        checkpoint.
        """
        from tidegate.ui.urls import checkpoint_url, dag_run_url

        task = cast(Linked, operator)
        checkpoint_id = task.linked_checkpoint()
        if checkpoint_id is None:
            return dag_run_url(ti_key.dag_id, ti_key.run_id)
        return checkpoint_url(task.resolve_pipeline().name, checkpoint_id)


class ValidationReportLink(BaseOperatorLink):
    @property
    def name(self) -> str:
        return "Validation report"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the report; empty, so that no button is shown, if there is none."""
        from tidegate.assembly import open_store
        from tidegate.ui.urls import docs_url

        task = cast(Linked, operator)
        checkpoint_id = task.linked_checkpoint()
        if checkpoint_id is None:
            return ""
        verdicts = open_store().verdicts(task.resolve_pipeline().name, checkpoint_id)
        return next((docs_url(verdict.docs_path) for verdict in verdicts if verdict.docs_path), "")
