"""Drive a continuous region: keep it registered, request its periodic checkpoints, take it through all checkpoints of
the pipeline, and complete them.

One thread runs in rounds: a micro-batch, then a read of the store. In the background, so that rows keep flowing,
sinks stage their part of a snapshot, acknowledgements are recorded, and checkpoints are validated, finalized and
notified. The process that requested a checkpoint may take the same steps at the same time. Each happens once.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from random import Random

from tidegate.coordination.continuous.asking import Asking
from tidegate.coordination.continuous.completing import Completing
from tidegate.coordination.continuous.pace import Pace
from tidegate.coordination.continuous.recording import Recording
from tidegate.coordination.continuous.under_way import UnderWay
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import ContinuousRegion, Round, Validator
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.facts.errors import (
    CheckpointError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.pipelines import ACTIVE, WITH_REGION, PipelineRecord
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.observing.lag import SourceLag

log = logging.getLogger("tidegate")

#: The number of background threads, in addition to one snapshot per checkpoint. One completes a checkpoint, and one
#: records acknowledgements or finishes writing the staged rows of an aborted checkpoint.
_BACKGROUND_THREADS = 2


class ContinuousRun:
    """One attempt at running a pipeline. Raises `CheckpointError`s. A new attempt then starts from the latest
    checkpoint."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        open_region: Callable[[RegionStart, Executor], ContinuousRegion],
        validator: Validator,
        random: Random,
    ) -> None:
        self._coordinator = coordinator
        self._context = coordinator.context
        self._open_region = open_region
        self._completing = Completing(coordinator, validator)
        self._recording = Recording(coordinator)
        self._asking = Asking(coordinator, self._now, random.random())
        self._pace = Pace(self._now)
        self._attempt = 0
        self._region: ContinuousRegion
        self._background: Executor
        self._under_way: UnderWay
        self._pipeline: PipelineRecord
        self._lag: Sequence[SourceLag] = ()

    def run(self, stopping: Callable[[], bool]) -> PipelineRecord:
        """Run until `stopping` returns True or the pipeline is no longer running. Return the pipeline's record at that
        time."""
        with ThreadPoolExecutor(
            _BACKGROUND_THREADS + self._context.config.max_concurrent, "tidegate-background"
        ) as background:
            try:
                self.start(background)
                while not (stopping() or self.round()):
                    if self._pace.idle:
                        self._wait()
                self.leave()
                return self._context.store.pipeline(self._context.pipeline_id) or self._pipeline
            finally:
                with suppress(StoreUnavailableError, UnknownOutcomeError):  # the error that ended the run comes first
                    self.end()

    @property
    def _now(self) -> timedelta:
        return timedelta(seconds=self._context.clock.monotonic())

    def _wait(self) -> None:
        """Wait until the store changes, a checkpoint is due, or the sources must be polled again."""
        due = self._due_at()
        longest = self._pace.longest_wait(due, self._now).total_seconds()
        has_changed = self._context.store.wait_for_change(self._context.pipeline_id, longest)
        self._pace.waited(due, has_changed, self._now)

    def _due_at(self) -> timedelta | None:
        return None if self._is_busy else self._asking.due_at()

    @property
    def _is_busy(self) -> bool:
        return self._under_way.is_full(self._asking.ended)

    def start(self, background: Executor) -> None:
        """Become the pipeline's region, and supersede the previous one. A checkpoint with manual approval is completed
        first."""
        while isinstance(start := self._coordinator.start_region(), CheckpointRecord):
            if self._completing.finalized(start.checkpoint_id):
                self._coordinator.notify(start.checkpoint_id)
        self._attempt = start.attempt
        self._region, self._background = self._open_region(start, background), background
        self._under_way = UnderWay(self._coordinator, start, self._region)
        since = "the beginning" if start.checkpoint_id is None else f"checkpoint {start.checkpoint_id}"
        log.info("Pipeline %s: region attempt %s starts from %s", self._context.pipeline_id, start.attempt, since)

    def round(self) -> bool:
        """Read the store if that is due, then run a micro-batch. Return whether the pipeline is no longer running.

        If a superseded attempt meets an error, `SupersededAttemptError` is raised instead, because its files may be
        gone.
        """
        try:
            return self._round()
        except Exception as error:
            if self._is_over(error):
                return True
            raise

    def _is_over(self, error: Exception) -> bool:
        """Whether the pipeline is no longer running, which ends the run without an error. Raises
        `SupersededAttemptError`, and the store's error if it is unavailable."""
        if isinstance(error, SupersededAttemptError):
            return False
        try:
            self._pipeline = self._coordinator.keep_region(self._attempt)
        except CheckpointError as store_error:
            raise store_error from error
        return self._pipeline.status not in WITH_REGION

    def _round(self) -> bool:
        if self._pace.polls_first():
            self._advance(polls=True)
        now = self._now
        if self._recording.take():
            self._pace.poll_store_next()
        has_completed = self._completing.has_ended if self._completing else None
        if self._pace.is_store_poll_due(self._due_at(), has_completed, now) and self._poll(now):
            return True
        self._advance(self._pace.is_poll_due(self._now))
        return False

    def _advance(self, polls: bool) -> None:
        begin = self._now
        done = self._region.advance(polls)
        polled_by = self._now
        self._report(done)
        self._pace.advanced(done, polls, bool(self._recording), begin, polled_by)

    def _poll(self, now: timedelta) -> bool:
        self._pace.polled_at = now
        try:
            polled = self._coordinator.poll_region(self._attempt, self._lag)
        except SupersededAttemptError:
            if self._under_way.has_stopped():
                return True  # the pipeline was resumed before this process read the store
            raise
        self._pipeline = polled.pipeline
        if self._pipeline.status in ACTIVE:  # a stopping pipeline takes its savepoint and no others
            self._asking.ask_for_people(polled.requests, self._is_busy)
            if not self._is_busy:
                self._asking.ask_if_due(self._attempt, self._now)
        if self._pipeline.status in WITH_REGION and self._under_way.follow(self._completing, self._background):
            self._asking.failed(self._now)
        return self._pipeline.status not in WITH_REGION

    def _report(self, done: Round) -> None:
        for checkpoint_id, acknowledgements in done.acknowledgements.items():
            self._recording.start(checkpoint_id, acknowledgements, self._background)
        for declined in done.declined:
            self._coordinator.abort(declined.checkpoint_id, declined.reason, declined.message)
        self._asking.took(done, self._now)
        self._lag = done.lag

    def leave(self) -> None:
        """Complete the checkpoints that have all their snapshots before the run ends, because no other process may do
        it."""
        self._recording.wait()
        self._under_way.leave(self._completing)

    def end(self) -> None:
        """End the region. May be repeated, and called before there is one."""
        if self._attempt:
            self._coordinator.end_region(self._attempt)
