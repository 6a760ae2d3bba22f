"""Runs a Spark job and hands its reports over, as they come where the session can give them early.

Spark Connect sends each partition's answer when it is there; a classic session gives all of them at the end of the job
(its way of iterating would run one partition after the other).
"""

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.reports import Report, decode_reports
from tidegate.spark.session import is_connect

Emit = Callable[[list[Report]], None]


def run_job(frame: DataFrame, emit: Emit) -> None:
    """Execute a frame of `REPORT_TYPE` and emit the reports of one subtask at a time."""
    rows = frame.toLocalIterator() if is_connect(frame.sparkSession) else frame.collect()
    for row in rows:
        emit(decode_reports(row.subtask, row.reports))


class JobGroup:
    """The jobs of one snapshot, so that none goes on running after another has failed."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session = session
        self._name = f"{name}-{uuid4().hex[:8]}"
        self._connect = is_connect(session)

    def enter(self) -> None:
        """Make the jobs that the calling thread starts from now on members."""
        if self._connect:
            self._session.addTag(self._name)
        else:  # a classic session knows a tag only in the thread that added it, so it cannot be interrupted by another
            self._session.sparkContext.setJobGroup(self._name, self._name, interruptOnCancel=True)

    def interrupt(self) -> None:
        with suppress(Exception):  # nothing runs on a session that is gone
            if self._connect:
                self._session.interruptTag(self._name)
            else:
                self._session.sparkContext.cancelJobGroup(self._name)
