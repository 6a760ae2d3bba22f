"""Export of a savepoint's files in one Spark job. No file passes through the driver."""

from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from tidegate.dataflow.reports import Report
from tidegate.protocol.facts.records import StateHandle, SubtaskId
from tidegate.spark.driver.run_job import collect_numbered
from tidegate.spark.executor.exporting import ExportPlan


def export_files(session: SparkSession, plan: ExportPlan) -> Mapping[SubtaskId, StateHandle]:
    """See `ports.Exporter`. Raise `CheckpointError`s; a repetition writes the same files once more."""
    if not plan.tasks:
        return {}
    where = f"the export of checkpoint {plan.checkpoint_id} of {plan.pipeline}"
    return runs_of(collect_numbered(session, plan, plan.tasks, where))


def runs_of(reports: Iterable[Report]) -> dict[SubtaskId, StateHandle]:
    """Return the run that each subtask reports. A copied file is reported without one."""
    return {
        SubtaskId(report.operator_id, report.subtask_index): handle for report in reports for handle in report.handles
    }
