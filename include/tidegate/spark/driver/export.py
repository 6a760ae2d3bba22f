"""Writes the files of a savepoint's directory in one Spark job: none of them passes through the driver."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidegate.dataflow.reports import Report
from tidegate.protocol.records import StateHandle, SubtaskId
from tidegate.spark.driver.run_job import run_job
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.executor.exporting import ExportPlan
from tidegate.spark.executor.report_rows import REPORT_TYPE


def export_files(session: SparkSession, plan: ExportPlan) -> Mapping[SubtaskId, StateHandle]:
    """See `ports.Exporter`. Raises `CheckpointError`s; repeating writes the same files once more."""
    if not plan.tasks:
        return {}
    reports: list[Report] = []
    tasks = session.range(0, plan.tasks, 1, plan.tasks)
    try:
        run_job(tasks.mapInArrow(plan.run, REPORT_TYPE), reports.extend)
    except Exception as error:
        raise as_checkpoint_error(error, f"the export of checkpoint {plan.checkpoint_id} of {plan.pipeline}") from error
    return {
        SubtaskId(report.operator_id, report.subtask_index): handle for report in reports for handle in report.handles
    }
