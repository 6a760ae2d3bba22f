"""Runs a Spark job and passes on its reports, early where the session allows it."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from tidegate.dataflow.reports import Report
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.executor.direct_rows import DirectPlan, DirectStagingPlan
from tidegate.spark.executor.report_rows import LEFT_TO_SPARK, REPORT_TYPE, decode_reports
from tidegate.spark.session.sessions import is_connect

Emit = Callable[[list[Report]], None]


def collect_reports(frame: DataFrame, where: str) -> list[Report]:
    """All reports of a job. Raises `CheckpointError`s; `where` says what was run."""
    reports: list[Report] = []
    try:
        run_job(frame, reports.extend)
    except Exception as error:
        raise as_checkpoint_error(error, where) from error
    return reports


def run_job(frame: DataFrame, emit: Emit) -> None:
    """Execute a frame of `REPORT_TYPE` and emit the reports of one subtask at a time.

    Spark Connect sends each partition's answer as soon as it is there. A classic session gives all of them at the end
    of the job (its way of iterating would run one partition after the other).
    """
    rows = frame.toLocalIterator() if is_connect(frame.sparkSession) else frame.collect()
    for row in rows:
        emit(decode_reports(row.subtask, row.reports))


def run_direct_job(session: SparkSession, plan: DirectPlan | DirectStagingPlan, emit: Emit) -> bool:
    """Execute a plan without a frame of rows. False, with nothing emitted, if Spark has to read them instead: all
    Spark tasks read the same, but a file may vanish in between, and a part of the reports must not count."""
    shares = len(plan.shares)
    rows = session.range(0, shares, 1, shares).mapInArrow(plan.run, REPORT_TYPE).collect()
    if any(row.subtask == LEFT_TO_SPARK for row in rows):
        return False
    emit([report for row in rows for report in decode_reports(row.subtask, row.reports)])
    return True
