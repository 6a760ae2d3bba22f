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

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore, Clock, ContinuousRegion, Round, Validator
from tidegate.protocol.errors import (
    CheckpointError,
    CheckpointExpiredError,
    CheckpointNotInProgressError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.pipelines import ACTIVE, WITH_REGION, PipelineRecord
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.regions import RegionStart
from tidegate.protocol.schedule import PeriodicSchedule
from tidegate.protocol.trigger import Dropped, Queued

log = logging.getLogger("tidegate")

#: Between two looks at what was asked of the pipeline, and the longest wait while nothing arrives.
LOOK_EVERY = timedelta(seconds=0.5)

#: How long the last checkpoint of a pipeline waits after a failure: what failed it may fail it again at once.
LAST_AGAIN_AFTER = timedelta(seconds=10)


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
        self._last_at = clock.now()  # from when on the last checkpoint may be asked for
        self._completing: Future[None] | None = None

    def run(self, stopping: Callable[[], bool]) -> PipelineRecord:
        """Until `stopping` says so, or the pipeline is no longer running; returns the pipeline as it is then."""
        with ThreadPoolExecutor(1, "tidegate-completing") as completing:
            try:
                self.start(completing)
                while not (stopping() or self.round()):
                    if self._idle:
                        self._store.wait_for_change(self._pipeline_id, LOOK_EVERY.total_seconds())
                self.leave()
                return self._store.pipeline(self._pipeline_id) or self._pipeline
            finally:
                with suppress(StoreUnavailableError, UnknownOutcomeError):  # what ended the run stays the news
                    self.end()

    def start(self, completing: Executor) -> None:
        """Become the pipeline's region, in the place of whoever was."""
        start = self._coordinator.start_region()
        self._attempt = start.attempt
        self._latest = -1 if start.checkpoint_id is None else start.checkpoint_id
        self._region = self._open_region(start)
        self._executor = completing
        since = "the beginning" if start.checkpoint_id is None else f"checkpoint {start.checkpoint_id}"
        log.info("Pipeline %s: the region of attempt %s goes on from %s", self._pipeline_id, start.attempt, since)

    def round(self) -> bool:
        """A micro-batch, and what the store says where that is due. Whether the pipeline does not run any more.

        Whatever befalls an attempt that does not count any more, the news is that it does not: its files may be gone.
        """
        try:
            return self._round()
        except Exception as error:
            if self._is_over(error):
                return True
            raise

    def _is_over(self, error: Exception) -> bool:
        """Whether the pipeline does not run any more, which then ends the run and no error does. Raises
        `SupersededAttemptError`, and what keeps the store from being asked."""
        if isinstance(error, SupersededAttemptError):
            return False
        try:
            self._pipeline = self._coordinator.keep_region(self._attempt)
        except CheckpointError as news:
            raise news from error
        return self._pipeline.status not in WITH_REGION

    def _round(self) -> bool:
        now = self._clock.now()
        if self._is_due or not timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            self._looked_at = now
            if self._look():
                return True
        done = self._region.advance()
        self._report(done)
        self._idle = done.idle
        self._is_due = done.idle or bool(done.acknowledgements)
        return False

    def _look(self) -> bool:
        try:
            self._pipeline = self._coordinator.keep_region(self._attempt)
        except SupersededAttemptError:
            if self._has_stopped():
                return True  # and was resumed before anybody here looked
            raise
        if self._pipeline.status in ACTIVE:  # one that stops takes its savepoint and no others
            self._ask_if_due()
        if self._pipeline.status in WITH_REGION:
            self._follow()
        return self._pipeline.status not in WITH_REGION

    def _has_stopped(self) -> bool:
        """Whether the region's last checkpoint was the savepoint to stop with, and is complete."""
        record = None if self._pending is None else self._store.checkpoint(self._pipeline_id, self._pending)
        return record is not None and record.kind is CheckpointKind.SYNC_SAVEPOINT and record.status in COMMITTED

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
        is_last = self._ended and now >= self._last_at
        if self._pending is not None or not (self._request or is_last or is_due):
            return
        if self._request is None:
            if is_due:
                self._schedule.fired(now)
            self._asked += 1
            self._request = f"region:{self._attempt}:{self._asked}"
        outcome = self._coordinator.trigger(self._request, periodic=not self._ended, wait=True)
        if isinstance(outcome, Queued):
            return
        if isinstance(outcome, Dropped):
            if outcome.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS and outcome.again_in is None:
                return  # dropped while somebody else asked, who alone heard how long the pause is: asked again, it is said
            log.info("Pipeline %s: %s", self._pipeline_id, outcome.message)
            self._last_at = now + LAST_AGAIN_AFTER
            if outcome.again_in is not None:
                self._schedule.dropped(outcome.again_in, now)
        self._request = None

    # -- everybody's checkpoints

    def _follow(self) -> None:
        """Begin what was triggered, complete what is acknowledged, tell the region what became of it."""
        if self._pending is None:
            self._begin_newest()
            return
        record = self._store.checkpoint(self._pipeline_id, self._pending)
        assert record is not None
        if record.status is Status.FAILED:
            log.warning(
                "Pipeline %s: checkpoint %s failed: %s", self._pipeline_id, record.checkpoint_id, record.failure_message
            )
            self._pending, self._last_at = None, self._clock.now() + LAST_AGAIN_AFTER
            self._region.aborted(record.checkpoint_id, self._latest)
        elif record.phase is Phase.TRIGGERED:
            self._expire_if_overdue(record)
        elif record.notified_at is not None:
            log.info("Pipeline %s: checkpoint %s completed", self._pipeline_id, record.checkpoint_id)
            self._latest, self._pending = record.checkpoint_id, None
            if self._completing is not None and self._completing.done():
                self._completing = None  # whatever came of it, the sinks were told
            self._region.completed(record.checkpoint_id)
        elif self._completing is None or self._completing.done():
            self._raise_if_failed()
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
            with suppress(CheckpointExpiredError, CheckpointNotInProgressError):  # or somebody else has just ended it
                self._coordinator.acknowledge(record.checkpoint_id)

    def _report(self, done: Round) -> None:
        """What the store does not take is of a checkpoint that has ended, and the next look tells the region so."""
        if done.acknowledgements and self._pending is not None:
            self._coordinator.record_acknowledgements(self._pending, done.acknowledgements)
        for declined in done.declined:
            self._coordinator.abort(declined.checkpoint_id, declined.reason, declined.message)
        self._schedule.backlog(done.behind, self._clock.now())
        self._ended = done.ended

    def _raise_if_failed(self) -> None:
        """Waits for what is being completed, and raises what kept it from its end for good."""
        completing, self._completing = self._completing, None
        if completing is not None:
            completing.result()

    def leave(self) -> None:
        """What has all its snapshots is completed before the run ends: there may be nobody else who would."""
        self._raise_if_failed()
        if self._pending is None:
            return
        record = self._store.checkpoint(self._pipeline_id, self._pending)
        assert record is not None
        if record.status is not Status.FAILED and record.phase is not Phase.TRIGGERED and record.notified_at is None:
            self._complete(record.checkpoint_id)

    def _complete(self, checkpoint_id: int) -> None:
        """In a thread of its own. What nobody knows enough to give up is tried again; what sinks raise ends the run, and
        the next one tells them first."""
        try:
            if self._finalized(checkpoint_id):
                self._coordinator.notify(checkpoint_id)
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning("Pipeline %s: checkpoint %s is tried again: %s", self._pipeline_id, checkpoint_id, error)

    def _finalized(self, checkpoint_id: int) -> bool:
        """Whether it has passed the commit point; if not, it was given up."""
        try:
            self._coordinator.finalize_validated(self._coordinator.validate(checkpoint_id, self._validator))
        except (StoreUnavailableError, UnknownOutcomeError):
            raise
        except Exception as error:
            log.error("Pipeline %s: checkpoint %s: %s", self._pipeline_id, checkpoint_id, error)
            reason, what = FailureReason.FINALIZE_CHECKPOINT_FAILURE, f"{type(error).__name__}: {error}"
            if isinstance(error, CheckpointError):
                reason, what = error.reason, str(error)
            self._coordinator.abort(checkpoint_id, reason, what)
            return False
        return True
