"""The buttons on tasks: to the page of their checkpoint, and on a `validate` task to the report of its validation.

They are computed by the task itself when it ends, also when it failed, and relative to Airflow's own address, so that
they also work behind a proxy.
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
        """The id, None if the task does not know it."""
        ...


class CheckpointLink(BaseOperatorLink):
    @property
    def name(self) -> str:
        return "Checkpoint"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """A task that does not know its checkpoint leads to all that its DAG run has asked for."""
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
        """Empty, so no button, if there is no report."""
        from tidegate.assembly import open_store
        from tidegate.ui.urls import docs_url

        task = cast(Linked, operator)
        checkpoint_id = task.linked_checkpoint()
        if checkpoint_id is None:
            return ""
        verdicts = open_store().verdicts(task.resolve_pipeline().name, checkpoint_id)
        return next((docs_url(verdict.docs_path) for verdict in verdicts if verdict.docs_path), "")
