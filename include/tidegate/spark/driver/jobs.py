"""`SparkJobs`: runs operator chains as Spark jobs, one after the other or in parallel."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from uuid import uuid4

from pyspark.sql import SparkSession

from tidegate.dataflow.elements import Data
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.jobs import JobEnded, JobReported
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import Report
from tidegate.pipeline.graph import Graph
from tidegate.ports import Segment
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import CompactedRun, Snapshot, SubtaskId
from tidegate.protocol.steps.watermarks import EventTimes
from tidegate.spark.driver.ahead import found_event_times
from tidegate.spark.driver.compaction import compact_runs
from tidegate.spark.driver.interrupts import noting_interrupts
from tidegate.spark.driver.operator_jobs import OperatorJobs
from tidegate.spark.driver.outdated import without_outdated
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import is_connect

#: News for the driver's thread: a job has reported, a job has ended (with its error, if it failed), or an interrupt.
_News = JobReported | tuple[JobEnded, BaseException | None] | KeyboardInterrupt
#: The maximum seconds until the driver's thread handles a signal.
HEARS_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """See `dataflow.jobs.Jobs`."""

    graph: Graph
    streams: Streams
    location: StateLocation

    def run(self, execution: Execution, plan: ExecutionPlan) -> list[Report]:
        reports: list[Report] = []
        try:
            self._operators(plan).run(execution, reports.extend)
        except Exception as error:
            raise self._explained(execution, error) from error
        return reports

    def event_times(
        self, segments: Mapping[SubtaskId, Segment], limits: Mapping[SubtaskId, int]
    ) -> Mapping[SubtaskId, EventTimes]:
        try:
            return found_event_times(self.graph, self.streams.session, segments, limits)
        except CheckpointError:
            raise
        except Exception as error:
            arrived: dict[str, list[Data]] = {}
            for subtask, segment in segments.items():
                arrived.setdefault(subtask.operator_id, []).append(segment)
            where = f"source {', '.join(arrived)} of pipeline {self.graph.pipeline.name!r}"
            raise self.streams.explain(error, arrived) or as_checkpoint_error(error, where) from error

    def fitting(self, restored: Mapping[SubtaskId, Snapshot]) -> Mapping[SubtaskId, Snapshot]:
        return without_outdated(self.graph, self.streams, self.location, restored)

    @contextmanager
    def at_once(self, name: str, most: int) -> "Iterator[_Threads]":
        with ThreadPoolExecutor(most, thread_name_prefix="tidegate") as pool:
            threads = _Threads(self, pool, _JobGroup(self.streams.session, name))
            try:
                with noting_interrupts(threads.note_interrupt):
                    yield threads
            except BaseException:
                threads.interrupt()
                raise

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        return compact_runs(self.graph, self.streams, self.location, checkpoint_id, snapshots, below)

    def _operators(self, plan: ExecutionPlan) -> OperatorJobs:
        return OperatorJobs(self.graph, self.streams, self.location, plan)

    def _explained(self, execution: Execution, error: BaseException) -> CheckpointError:
        """Return the error for the pipeline's owner, from an error of a chain's job."""
        where = self.streams.where(execution.chain.vertex)
        return self.streams.explain(error, execution.arrived) or as_checkpoint_error(error, where)


class _Threads:
    """A thread for each job. They report through a queue."""

    def __init__(self, jobs: SparkJobs, pool: ThreadPoolExecutor, group: "_JobGroup") -> None:
        self._jobs = jobs
        self._pool = pool
        self._group = group
        self._early = is_connect(jobs.streams.session)
        self._started: list[Future[None]] = []
        self._news: SimpleQueue[_News] = SimpleQueue()

    def start(self, execution: Execution, plan: ExecutionPlan) -> None:
        self._started.append(self._pool.submit(self._run, execution, plan))

    def news(self) -> Sequence[JobReported | JobEnded]:
        news = [self._explained(self._next())]
        with suppress(Empty):
            while True:
                news.append(self._explained(self._news.get_nowait()))
        return news

    def _next(self) -> _News:
        """Wait for news, with a timeout: a signal just before a wait does not end it, and its handler is called only
        afterwards."""
        while True:
            with suppress(Empty):
                return self._news.get(timeout=HEARS_EVERY)

    def note_interrupt(self) -> None:
        """Pass an interrupt to the thread that waits for news."""
        self._news.put(KeyboardInterrupt())

    def interrupt(self) -> None:
        """Interrupt the running jobs. It is repeated, because a job that is still being planned cannot be interrupted
        yet."""
        while wait(self._started, timeout=0).not_done:
            self._group.interrupt()
            wait(self._started, timeout=0.5)

    def _run(self, execution: Execution, plan: ExecutionPlan) -> None:
        reports: list[Report] = []
        error: BaseException | None = None

        def report_early(early: list[Report]) -> None:
            self._news.put(JobReported(execution, early))

        try:
            self._group.enter()
            self._jobs._operators(plan).run(execution, report_early if self._early else reports.extend)
        except BaseException as caught:
            error = caught
        self._news.put((JobEnded(execution, reports), error))

    def _explained(self, news: _News) -> JobReported | JobEnded:
        """Explain an error. Called in the driver's thread, which may ask Spark about it."""
        if isinstance(news, KeyboardInterrupt):
            raise news
        if isinstance(news, JobReported):
            return news
        ended, error = news
        if error is None:
            return ended
        explained = self._jobs._explained(ended.execution, error)
        explained.__cause__ = error
        return JobEnded(ended.execution, ended.reports, explained)


class _JobGroup:
    """Jobs that are interrupted together, so that none keeps running after another has failed."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session = session
        self._name = f"{name}-{uuid4().hex[:8]}"
        self._connect = is_connect(session)

    def enter(self) -> None:
        """Add the jobs that the calling thread starts from now on."""
        if self._connect:
            self._session.addTag(self._name)
        else:  # a classic session has a tag only in the thread that added it, so another thread cannot interrupt it
            self._session.sparkContext.setJobGroup(self._name, self._name, interruptOnCancel=True)

    def interrupt(self) -> None:
        with suppress(Exception):  # nothing runs on a lost session
            if self._connect:
                self._session.interruptTag(self._name)
            else:
                self._session.sparkContext.cancelJobGroup(self._name)
