"""The run of a Spark job, which passes on its reports, early where the session allows it."""

from collections.abc import Callable, Iterable

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tidegate.dataflow.reports import Report
from tidegate.settings.shortcuts import Shortcut
from tidegate.spark.driver.spark_errors import as_checkpoint_error, core_error
from tidegate.spark.executor.direct_rows import DirectPlan, DirectStagingPlan
from tidegate.spark.executor.numbered import Numbered, NumberedPlan
from tidegate.spark.executor.report_rows import LEFT_TO_SPARK, REPORT_TYPE, decode_reports
from tidegate.spark.session.sessions import is_connect

Emit = Callable[[list[Report]], None]

#: Jobs without Spark SQL, whose subtasks read their input directly. They use public names, but of the RDD API.
SHORTCUT = Shortcut(
    "reading",
    "pyspark",
    ("pyspark:SparkContext.parallelize", "pyspark:RDD.mapPartitions", "py4j.protocol:Py4JJavaError"),
    "each job runs on Spark SQL, and Spark reads all input",
)


def collect_reports(frame: DataFrame, where: str) -> list[Report]:
    """Return all reports of a job. Raise `CheckpointError`s, in which `where` names the job."""
    reports: list[Report] = []
    try:
        run_job(frame, reports.extend)
    except Exception as error:
        raise as_checkpoint_error(error, where) from error
    return reports


def run_job(frame: DataFrame, emit: Emit) -> None:
    """Execute a frame of `REPORT_TYPE` and emit the reports of one subtask at a time.

    Spark Connect sends each partition's result as soon as it is there. A classic session returns all of them at the end
    of the job, because its iterator would run one partition after the other.
    """
    rows = frame.toLocalIterator() if is_connect(frame.sparkSession) else frame.collect()
    for row in rows:
        emit(decode_reports(row.subtask, row.reports))


def run_numbered(session: SparkSession, plan: NumberedPlan, numbers: int, emit: Emit, most: int | None = None) -> None:
    """Execute a plan for all numbers below one, in as many Spark tasks, or `most`. Emit as `run_job` does."""
    for subtask, reports in _answers(session, plan, numbers, min(numbers, most or numbers)):
        emit(decode_reports(subtask, reports))


def collect_numbered(session: SparkSession, plan: NumberedPlan, numbers: int, where: str) -> list[Report]:
    """Return all reports of a plan. Raise `CheckpointError`s, in which `where` names the plan."""
    reports: list[Report] = []
    try:
        run_numbered(session, plan, numbers, reports.extend)
    except Exception as error:
        raise as_checkpoint_error(error, where) from error
    return reports


def run_direct_job(session: SparkSession, plan: DirectPlan | DirectStagingPlan, emit: Emit) -> bool:
    """Execute a plan that reads rows directly. Return False, without a report, if Spark must read them instead. All
    Spark tasks read the same input, but a file may vanish in between, and then partial reports must not count."""
    answers = list(_answers(session, plan, len(plan.shares), len(plan.shares)))
    if any(subtask == LEFT_TO_SPARK for subtask, _ in answers):
        return False
    emit([report for subtask, reports in answers for report in decode_reports(subtask, reports)])
    return True


def _answers(session: SparkSession, plan: NumberedPlan, numbers: int, tasks: int) -> Iterable[tuple[int, str]]:
    numbered = Numbered(plan)
    if is_connect(session) or not SHORTCUT.is_taken():
        frame = session.range(0, numbers, 1, tasks).mapInArrow(numbered.on_frame, REPORT_TYPE)
        return ((row.subtask, row.reports) for row in frame.toLocalIterator())
    try:
        return session.sparkContext.parallelize(range(numbers), tasks).mapPartitions(numbered.on_core).collect()
    except Py4JJavaError as error:
        raise core_error(error) from error
