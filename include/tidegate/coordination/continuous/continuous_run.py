"""Drives a continuous region: keeps it registered, asks for its periodic checkpoints, takes it through all checkpoints
of the pipeline, and completes them.

One thread runs in rounds: a micro-batch, then a look at the store. Beside it, so that rows flow on meanwhile, sinks
stage their part of a snapshot, acknowledgements are recorded, and checkpoints are validated, finalized and notified.
The process that asked for a checkpoint may take the same steps at the same time; each happens once.
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

#: What may run beside the rounds at a time, apart from a snapshot for each checkpoint: one is completed,
#: acknowledgements are recorded, and what an aborted one staged is still written.
_BESIDE = 2


class ContinuousRun:
    """One attempt at running a pipeline. Raises `CheckpointError`s; a new attempt then goes on from the latest
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
        self._beside: Executor
        self._under_way: UnderWay
        self._pipeline: PipelineRecord
        self._lag: Sequence[SourceLag] = ()

    def run(self, stopping: Callable[[], bool]) -> PipelineRecord:
        """Run until `stopping` says so or the pipeline is no longer running; returns the pipeline as it is then."""
        with ThreadPoolExecutor(_BESIDE + self._context.config.max_concurrent, "tidegate-beside") as beside:
            try:
                self.start(beside)
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
        """Until something changes in the store, a checkpoint is due, or the sources are to be polled again."""
        due = self._due_at()
        longest = self._pace.longest_wait(due, self._now).total_seconds()
        has_changed = self._context.store.wait_for_change(self._context.pipeline_id, longest)
        self._pace.waited(due, has_changed, self._now)

    def _due_at(self) -> timedelta | None:
        return None if self._is_busy else self._asking.due_at()

    @property
    def _is_busy(self) -> bool:
        return self._under_way.is_full(self._asking.ended)

    def start(self, beside: Executor) -> None:
        """Become the pipeline's region, and supersede the one before. What a person has approved is completed first."""
        while isinstance(start := self._coordinator.start_region(), CheckpointRecord):
            if self._completing.finalized(start.checkpoint_id):
                self._coordinator.notify(start.checkpoint_id)
        self._attempt = start.attempt
        self._region, self._beside = self._open_region(start, beside), beside
        self._under_way = UnderWay(self._coordinator, start, self._region)
        since = "the beginning" if start.checkpoint_id is None else f"checkpoint {start.checkpoint_id}"
        log.info("Pipeline %s: region attempt %s starts from %s", self._context.pipeline_id, start.attempt, since)

    def round(self) -> bool:
        """A look at the store if one is due, then a micro-batch. Returns whether the pipeline is no longer running.

        If a superseded attempt meets an error, `SupersededAttemptError` is raised instead: its files may be gone.
        """
        try:
            return self._round()
        except Exception as error:
            if self._is_over(error):
                return True
            raise

    def _is_over(self, error: Exception) -> bool:
        """Whether the pipeline is no longer running, which ends the run without an error. Raises
        `SupersededAttemptError`, and the store's error if it cannot be asked."""
        if isinstance(error, SupersededAttemptError):
            return False
        try:
            self._pipeline = self._coordinator.keep_region(self._attempt)
        except CheckpointError as news:
            raise news from error
        return self._pipeline.status not in WITH_REGION

    def _round(self) -> bool:
        if self._pace.polls_first():
            self._advance(polls=True)
        now = self._now
        if self._recording.take():
            self._pace.look_is_due()
        has_completed = self._completing.has_ended if self._completing else None
        if self._pace.is_look_due(self._due_at(), has_completed, now) and self._look(now):
            return True
        self._advance(self._pace.is_poll_due(self._now))
        return False

    def _advance(self, polls: bool) -> None:
        begin = self._now
        done = self._region.advance(polls)
        polled_by = self._now
        self._report(done)
        self._pace.advanced(done, polls, bool(self._recording), begin, polled_by)

    def _look(self, now: timedelta) -> bool:
        self._pace.looked_at = now
        try:
            look = self._coordinator.look(self._attempt, self._lag)
        except SupersededAttemptError:
            if self._under_way.has_stopped():
                return True  # and the pipeline was resumed before this process looked
            raise
        self._pipeline = look.pipeline
        if self._pipeline.status in ACTIVE:  # a stopping one takes its savepoint and no others
            self._asking.ask_for_people(look.requests, self._is_busy)
            if not self._is_busy:
                self._asking.ask_if_due(self._attempt, self._now)
        if self._pipeline.status in WITH_REGION and self._under_way.follow(self._completing, self._beside):
            self._asking.failed(self._now)
        return self._pipeline.status not in WITH_REGION

    def _report(self, done: Round) -> None:
        for checkpoint_id, acknowledgements in done.acknowledgements.items():
            self._recording.start(checkpoint_id, acknowledgements, self._beside)
        for declined in done.declined:
            self._coordinator.abort(declined.checkpoint_id, declined.reason, declined.message)
        self._asking.took(done, self._now)
        self._lag = done.lag

    def leave(self) -> None:
        """What has all its snapshots is completed before the run ends: there may be no other process to do it."""
        self._recording.wait()
        self._under_way.leave(self._completing)

    def end(self) -> None:
        """End the region. May be repeated, and called before there is one."""
        if self._attempt:
            self._coordinator.end_region(self._attempt)
