"""Drives a continuous region: keeps it registered, asks for its periodic checkpoints, takes it through everybody's, and
completes them.

One thread goes round and round: a micro-batch, then what the store says. A second one judges, finalizes and notifies, so
that rows flow on meanwhile. Whoever asked for a checkpoint may take the same steps at the same time; each happens once.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from random import Random

from tidegate.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore, Clock, ContinuousRegion, Round, Validator
from tidegate.protocol.errors import CheckpointError, CheckpointExpiredError, StoreUnavailableError, UnknownOutcomeError
from tidegate.protocol.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.pipelines import WITH_REGION, PipelineRecord
from tidegate.protocol.records import CheckpointRecord
from tidegate.protocol.regions import RegionStart
from tidegate.protocol.schedule import PeriodicSchedule
from tidegate.protocol.trigger import Dropped, Queued

log = logging.getLogger("tidegate")

#: Between two looks at what was asked of the pipeline, and the longest wait while nothing arrives.
LOOK_EVERY = timedelta(seconds=0.5)


class ContinuousRun:
    """One attempt at running a pipeline. Raises `CheckpointError`s; a new attempt then goes on from the latest checkpoint."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        store: CheckpointStore,
        open_region: Callable[[RegionStart], ContinuousRegion],
        validator: Validator,
        clock: Clock,
        random: Random,
    ) -> None:
        self._coordinator = coordinator
        self._pipeline_id = coordinator.pipeline_id
        self._store = store
        self._open_region = open_region
        self._validator = validator
        self._clock = clock
        config = coordinator.config
        self._schedule = PeriodicSchedule(
            config.interval,
            config.interval_during_backlog,
            config.min_pause,
            started_at=clock.now(),
            fraction=random.random(),
        )
        self._attempt = 0
        self._region: ContinuousRegion
        self._executor: Executor
        self._pipeline: PipelineRecord
        self._looked_at = clock.now()
        self._is_due = True  # to look at the store
        self._idle = False
        self._asked = 0
        self._request: str | None = None  # the periodic one that has not been answered yet
        self._pending: int | None = None  # the checkpoint that the region takes part in
        self._latest = -1
        self._ended = False  # every source has been read, and no checkpoint says so yet
        self._completing: Future[None] | None = None

    def run(self, stopping: Callable[[], bool]) -> PipelineRecord:
        """Until `stopping` says so, or the pipeline is no longer running; returns the pipeline as it is then."""
        with ThreadPoolExecutor(1, "tidegate-completing") as completing:
            try:
                self.start(completing)
                while True:
                    pipeline = self.round()
                    if pipeline.status not in WITH_REGION or stopping():
                        return pipeline
                    if self._idle:
                        self._store.wait_for_change(self._pipeline_id, LOOK_EVERY.total_seconds())
            finally:
                with suppress(StoreUnavailableError):
                    self.end()

    def start(self, completing: Executor) -> None:
        """Become the pipeline's region, in the place of whoever was."""
        start = self._coordinator.start_region()
        self._attempt = start.attempt
        self._latest = -1 if start.checkpoint_id is None else start.checkpoint_id
        self._region = self._open_region(start)
        self._executor = completing

    def round(self) -> PipelineRecord:
        """A micro-batch, and what the store says where that is due. Returns the pipeline as it was seen last; one that does
        not run any more gets no micro-batch."""
        now = self._clock.now()
        if self._is_due or not timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            self._looked_at = now
            self._pipeline = self._coordinator.keep_region(self._attempt)
            if self._pipeline.status not in WITH_REGION:
                return self._pipeline
            self._ask_if_due()
            self._follow()
        done = self._region.advance()
        self._report(done)
        self._idle = done.idle
        self._is_due = done.idle or bool(done.acknowledgements)
        return self._pipeline

    def end(self) -> None:
        """Be the region no more. May be repeated, and come before there was one."""
        if self._attempt:
            self._coordinator.end_region(self._attempt)

    # -- periodic checkpoints

    def _ask_if_due(self) -> None:
        """A request that has to wait is repeated, and keeps its place. Once everything has been read, the last checkpoint
        is due at once (protocol.md section 13)."""
        now, due = self._clock.now(), self._schedule.next_at
        is_due = due is not None and now >= due
        if self._pending is not None or not (self._request or self._ended or is_due):
            return
        if self._request is None:
            if is_due:
                self._schedule.fired(now)
            self._asked += 1
            self._request = f"region:{self._attempt}:{self._asked}"
        outcome = self._coordinator.trigger(self._request, periodic=not self._ended, wait=True)
        if isinstance(outcome, Queued):
            return
        self._request = None
        if isinstance(outcome, Dropped):
            log.info("Pipeline %s: %s", self._pipeline_id, outcome.message)
            if outcome.again_in is not None:
                self._schedule.dropped(outcome.again_in, now)

    # -- everybody's checkpoints

    def _follow(self) -> None:
        """Begin what was triggered, complete what is acknowledged, tell the region what became of it."""
        if self._pending is None:
            self._begin_newest()
            return
        record = self._store.checkpoint(self._pipeline_id, self._pending)
        assert record is not None
        if record.status in COMMITTED:
            log.info("Pipeline %s: checkpoint %s completed", self._pipeline_id, record.checkpoint_id)
            self._latest, self._pending = record.checkpoint_id, None
            self._region.completed(record.checkpoint_id)
        elif record.status is Status.FAILED:
            log.warning(
                "Pipeline %s: checkpoint %s failed: %s", self._pipeline_id, record.checkpoint_id, record.failure_message
            )
            self._pending = None
            self._region.aborted(record.checkpoint_id, self._latest)
        elif record.phase is Phase.TRIGGERED:
            self._expire_if_overdue(record)
        elif self._completing is None or self._completing.done():
            if self._completing is not None:
                self._completing.result()  # raises what nobody expected
            self._completing = self._executor.submit(self._complete, record.checkpoint_id)

    def _begin_newest(self) -> None:
        for record in self._store.history(self._pipeline_id, 1):
            if record.status is Status.IN_PROGRESS:
                task = self._coordinator.begin_snapshot(self._attempt, record.checkpoint_id)
                if task is not None:
                    self._pending = task.checkpoint_id
                    self._region.begin(task)

    def _expire_if_overdue(self, record: CheckpointRecord) -> None:
        if self._clock.now() >= record.deadline:
            with suppress(CheckpointExpiredError):
                self._coordinator.acknowledge(record.checkpoint_id)

    def _report(self, done: Round) -> None:
        """What the store does not take is of a checkpoint that has ended, and the next look tells the region so."""
        if done.acknowledgements and self._pending is not None:
            self._coordinator.record_acknowledgements(self._pending, done.acknowledgements)
        for declined in done.declined:
            self._coordinator.abort(declined.checkpoint_id, declined.reason, declined.message)
        self._schedule.backlog(done.behind, self._clock.now())
        self._ended = done.ended

    def _complete(self, checkpoint_id: int) -> None:
        """In a thread of its own. What nobody knows enough to give up is tried again."""
        try:
            self._complete_or_abort(checkpoint_id)
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning("Pipeline %s: checkpoint %s is tried again: %s", self._pipeline_id, checkpoint_id, error)

    def _complete_or_abort(self, checkpoint_id: int) -> None:
        try:
            self._coordinator.finalize_validated(self._coordinator.validate(checkpoint_id, self._validator))
            self._coordinator.notify(checkpoint_id)
        except (StoreUnavailableError, UnknownOutcomeError):
            raise
        except CheckpointError as error:
            log.error("Pipeline %s: checkpoint %s: %s", self._pipeline_id, checkpoint_id, error)
            self._coordinator.abort(checkpoint_id, error.reason, str(error))
