"""The button on a `validate` task that leads to the validation report of its checkpoint."""

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from tidegate.airflow.step import CheckpointStep

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ValidationReportLink(BaseOperatorLink):
    """Relative to Airflow's own address, so that it also works behind a proxy."""

    @property
    def name(self) -> str:
        return "Validation report"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Computed by the task itself when it ends, also when it failed; empty, so no button, if there is no report."""
        from tidegate.assembly import open_store
        from tidegate.ui.urls import docs_url

        assert isinstance(operator, CheckpointStep)
        verdicts = open_store().verdicts(operator.resolve_pipeline().name, operator.rendered_id())
        return next((docs_url(verdict.docs_path) for verdict in verdicts if verdict.docs_path), "")
