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

from tidegate.coordination.continuous.completing import Completing
from tidegate.coordination.continuous.recording import Recording
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps.lookup import find_triggered
from tidegate.ports import CheckpointStore, Clock, ContinuousRegion, Round, Validator
from tidegate.protocol.continuous.overlap import choose_to_complete
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.continuous.schedule import PeriodicSchedule, PollSchedule
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointExpiredError,
    CheckpointNotInProgressError,
    IllegalRequestError,
    PipelineFailedError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.names import request_of_region
from tidegate.protocol.facts.pipelines import ACTIVE, WITH_REGION, PipelineRecord
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, CheckpointRequest
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.steps.admission import choose_misdated, choose_to_repeat
from tidegate.protocol.steps.trigger import Dropped, DroppedUntil, Queued

log = logging.getLogger("tidegate")

#: The longest time between two looks at the store, if nothing is known to be due there.
LOOK_EVERY = timedelta(seconds=0.5)

#: The time between two rounds while a snapshot is being written: nobody says when it is.
_WHILE_WRITING = timedelta(seconds=0.02)

#: What may run beside the rounds at a time, apart from a snapshot for each checkpoint: one is completed,
#: acknowledgements are recorded, and what an aborted one staged is still written.
_BESIDE = 2

#: How long the last checkpoint of a pipeline waits after a failure: the same cause might fail it again at once.
LAST_AGAIN_AFTER = timedelta(seconds=10)


class ContinuousRun:
    """One attempt at running a pipeline. Raises `CheckpointError`s; a new attempt then goes on from the latest
    checkpoint."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        store: CheckpointStore,
        open_region: Callable[[RegionStart, Executor], ContinuousRegion],
        validator: Validator,
        clock: Clock,
        random: Random,
    ) -> None:
        self._coordinator = coordinator
        self._pipeline_id = coordinator.pipeline_id
        self._store = store
        self._open_region = open_region
        self._completing = Completing(coordinator, validator)
        self._recording = Recording(coordinator)
        self._clock = clock
        config, now = coordinator.config, self._now
        self._schedule = PeriodicSchedule(
            config.interval, config.interval_during_backlog, config.min_pause, started_at=now, fraction=random.random()
        )
        self._attempt = self._asked = 0
        self._region: ContinuousRegion
        self._beside: Executor
        self._pipeline: PipelineRecord
        self._looked_at = now
        self._is_due = True  # whether a look at the store is due
        self._idle = self._writing = False
        self._polls = PollSchedule(now)
        self._polls_first = False  # it has waited until a checkpoint is due, and has not polled since
        self._request: str | None = None  # the periodic one that has not been answered yet
        self._pending: list[int] = []  # the checkpoints that the region takes part in, oldest first
        self._max_concurrent, self._unaligned, self._timeout = config.max_concurrent, config.unaligned, config.timeout
        self._latest, self._newest = -1, 0  # the newest checkpoint that has completed, and that it has looked at
        self._ended = False  # every source has been read, and no checkpoint says so yet
        self._lag: Sequence[SourceLag] = ()
        self._last_at = now  # when the last checkpoint may be asked for

    def run(self, stopping: Callable[[], bool]) -> PipelineRecord:
        """Run until `stopping` says so or the pipeline is no longer running; returns the pipeline as it is then."""
        with ThreadPoolExecutor(_BESIDE + self._max_concurrent, "tidegate-beside") as beside:
            try:
                self.start(beside)
                while not (stopping() or self.round()):
                    if self._idle:
                        self._wait()
                self.leave()
                return self._store.pipeline(self._pipeline_id) or self._pipeline
            finally:
                with suppress(StoreUnavailableError, UnknownOutcomeError):  # the error that ended the run comes first
                    self.end()

    @property
    def _now(self) -> timedelta:
        return timedelta(seconds=self._clock.monotonic())

    def _wait(self) -> None:
        """Until something changes in the store, a checkpoint is due, or the sources are to be polled again."""
        now = self._now
        longest = _WHILE_WRITING if self._writing else self._polls.wait(now)
        if (due := self._due_at()) is not None:
            longest = min(longest, max(due - now, timedelta(0)))
        self._is_due = self._store.wait_for_change(self._pipeline_id, longest.total_seconds())
        self._polls_first = due is not None and self._now >= due

    def _due_at(self) -> timedelta | None:
        """When the next periodic checkpoint is to be asked for, unless one is under way or has to wait its turn."""
        return None if self._is_busy or self._request is not None else self._schedule.next_at

    @property
    def _is_busy(self) -> bool:
        """Whether the region takes part in as many checkpoints as it may. The last one is followed by none."""
        return len(self._pending) >= (1 if self._ended else self._max_concurrent)

    def _is_look_due(self, now: timedelta) -> bool:
        if now - self._looked_at >= LOOK_EVERY:
            return True
        if (due := self._due_at()) is not None and now >= due:
            return True
        if self._completing:  # most of what changes meanwhile is its own doing
            return self._completing.has_ended
        return self._is_due

    def start(self, beside: Executor) -> None:
        """Become the pipeline's region, and supersede the one before. What a person has approved is completed first."""
        while isinstance(start := self._coordinator.start_region(), CheckpointRecord):
            if self._completing.finalized(start.checkpoint_id):
                self._coordinator.notify(start.checkpoint_id)
        self._attempt = start.attempt
        self._latest = -1 if start.checkpoint_id is None else start.checkpoint_id
        self._newest = max(self._latest, 0)
        self._region, self._beside = self._open_region(start, beside), beside
        since = "the beginning" if start.checkpoint_id is None else f"checkpoint {start.checkpoint_id}"
        log.info("Pipeline %s: region attempt %s starts from %s", self._pipeline_id, start.attempt, since)

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
        if self._polls_first:  # what has landed meanwhile belongs to that checkpoint: the next is an interval away
            self._polls_first = False
            self._advance(polls=True)
        now = self._now
        self._is_due = self._recording.take() or self._is_due
        if self._is_look_due(now) and self._look(now):
            return True
        self._advance(self._polls.is_due(self._now))
        return False

    def _advance(self, polls: bool) -> None:
        begin = self._now
        done = self._region.advance(polls)
        if polls and done.idle and not done.behind:
            self._polls.found_nothing(begin, self._now)
        self._report(done)
        self._idle, self._writing = done.idle, done.writing or bool(self._recording)
        self._is_due = done.idle

    def _look(self, now: timedelta) -> bool:
        self._looked_at = now
        try:
            look = self._coordinator.look(self._attempt, self._lag)
        except SupersededAttemptError:
            if self._has_stopped():
                return True  # and the pipeline was resumed before this process looked
            raise
        self._pipeline = look.pipeline
        if self._pipeline.status in ACTIVE:  # a stopping one takes its savepoint and no others
            self._ask_for_people(look.requests)
            self._ask_if_due()
        if self._pipeline.status in WITH_REGION:
            self._follow()
        return self._pipeline.status not in WITH_REGION

    def _has_stopped(self) -> bool:
        """Whether the region's last checkpoint was the savepoint to stop with, and is complete."""
        last = self._records()[-1:]
        return any(each.kind is CheckpointKind.SYNC_SAVEPOINT and each.status in COMMITTED for each in last)

    def end(self) -> None:
        """End the region. May be repeated, and called before there is one."""
        if self._attempt:
            self._coordinator.end_region(self._attempt)

    # -- periodic checkpoints

    def _ask_if_due(self) -> None:
        """A request that has to wait is repeated, and keeps its place. Once everything has been read, the last
        checkpoint is due at once (protocol.md section 13)."""
        now, due = self._now, self._schedule.next_at
        is_due, is_last = due is not None and now >= due, self._ended and now >= self._last_at
        if self._is_busy or not (self._request or is_last or is_due):
            return
        if self._request is None:
            if is_due:
                self._schedule.fired(now)
            self._asked += 1
            self._request = request_of_region(self._attempt, self._asked)
        outcome = self._coordinator.trigger(self._request, periodic=not self._ended, wait=True)
        if isinstance(outcome, Queued):
            return
        if isinstance(outcome, Dropped):
            if isinstance(outcome, DroppedUntil):
                self._schedule.dropped(outcome.again_in, now)
            elif outcome.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS:
                return  # dropped by another process's look at the queue: repeated, the request learns until when
            log.info("Pipeline %s: %s", self._pipeline_id, outcome.message)
            self._last_at = now + LAST_AGAIN_AFTER
        self._request = None

    # -- checkpoints that people ask the region for

    def _ask_for_people(self, requests: Sequence[CheckpointRequest]) -> None:
        """Whoever has handed a request over cannot repeat it, or has no definition to trigger it with."""
        for request in choose_to_repeat(requests, self._clock.now(), self._is_busy, self._unaligned):
            label = Label(request.name, request.note)
            try:
                outcome = self._coordinator.trigger(
                    request.request_id, kind=request.kind, wait=True, drain=request.drain, label=label
                )
            except (IllegalRequestError, PipelineFailedError) as error:
                self._coordinator.abort_request(request.request_id, error.reason, str(error))
                log.warning("Pipeline %s: request %s: %s", self._pipeline_id, request.request_id, error)
                continue
            if isinstance(outcome, Dropped):
                log.info("Pipeline %s: request %s: %s", self._pipeline_id, request.request_id, outcome.message)

    # -- all checkpoints

    def _follow(self) -> None:
        """Begin triggered checkpoints, complete one that is acknowledged, and notify the region of the outcomes. One
        that is held waits, and rows go on flowing meanwhile.

        What has completed is told last: checkpoints that were triggered before that still ask subtasks that have
        finished with it."""
        going = self._records()
        for record in going:
            if record.status is Status.FAILED:
                self._has_failed(record)
        self._begin_new()
        for record in going:
            if record.notified_at is not None:
                self._has_completed(record)
            elif record.status is Status.IN_PROGRESS and record.phase in (Phase.TRIGGERED, Phase.HELD):
                self._expire_if_overdue(record)
        following = self._following(going)
        self._completing.forget_unless(following)
        if following is not None and (not self._completing or self._completing.has_ended):
            self._completing.start(following, self._beside)

    def _records(self) -> list[CheckpointRecord]:
        found = [self._store.checkpoint(self._pipeline_id, pending) for pending in self._pending]
        return [record for record in found if record is not None]

    def _has_failed(self, record: CheckpointRecord) -> None:
        if record.failure_reason is FailureReason.CHECKPOINT_SUBSUMED:
            log.info("Pipeline %s: %s", self._pipeline_id, record.failure_message)
        else:
            log.warning(
                "Pipeline %s: checkpoint %s failed: %s", self._pipeline_id, record.checkpoint_id, record.failure_message
            )
        self._pending.remove(record.checkpoint_id)
        self._last_at = self._now + LAST_AGAIN_AFTER
        self._region.aborted(record.checkpoint_id, self._latest)

    def _has_completed(self, record: CheckpointRecord) -> None:
        log.info("Pipeline %s: checkpoint %s completed", self._pipeline_id, record.checkpoint_id)
        self._pending.remove(record.checkpoint_id)
        self._latest = record.checkpoint_id
        self._region.completed(record.checkpoint_id)

    def _begin_new(self) -> None:
        """Those that have been triggered since the last look, in their order."""
        for record in find_triggered(self._store, self._pipeline_id, self._newest):
            self._newest = record.checkpoint_id
            if record.status is Status.IN_PROGRESS:
                task = self._coordinator.begin_snapshot(self._attempt, record.checkpoint_id)
                if task is not None:
                    self._pending.append(task.checkpoint_id)
                    self._region.begin(task)

    def _expire_if_overdue(self, record: CheckpointRecord) -> None:
        if (now := self._clock.now()) >= record.ends_at or choose_misdated([record], self._timeout, now):
            with suppress(CheckpointExpiredError, CheckpointNotInProgressError):  # or another process has just ended it
                self._coordinator.acknowledge(record.checkpoint_id)

    def _report(self, done: Round) -> None:
        for checkpoint_id, acknowledgements in done.acknowledgements.items():
            self._recording.start(checkpoint_id, acknowledgements, self._beside)
        for declined in done.declined:
            self._coordinator.abort(declined.checkpoint_id, declined.reason, declined.message)
        self._schedule.backlog(done.behind, self._now)
        self._ended, self._lag = done.ended, done.lag

    def leave(self) -> None:
        """What has all its snapshots is completed before the run ends: there may be no other process to do it."""
        self._recording.wait()
        self._completing.wait()
        tried: set[int] = set()
        while (following := self._following(self._records())) is not None and following not in tried:
            tried.add(following)
            self._completing.complete(following)

    def _following(self, records: Sequence[CheckpointRecord]) -> int | None:
        """The checkpoint to complete next, of those that have not ended."""
        going = [record for record in records if record.status is not Status.FAILED and record.notified_at is None]
        following = choose_to_complete(going)
        return None if following is None else following.checkpoint_id
