"""Request the checkpoints of a continuous run: the periodic ones, the last one, and those of users."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import Round
from tidegate.protocol.continuous.schedule import PeriodicSchedule
from tidegate.protocol.facts.errors import IllegalRequestError, PipelineFailedError
from tidegate.protocol.facts.names import request_of_region
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRequest
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.steps.admission import choose_to_repeat
from tidegate.protocol.steps.trigger import Dropped, DroppedUntil, Queued

log = logging.getLogger("tidegate")

#: The pause before the last checkpoint of a pipeline is repeated after a failure, whose cause might persist.
LAST_AGAIN_AFTER = timedelta(seconds=10)


class Asking:
    """The requests of one attempt. `now` is on the monotonic clock of its process."""

    def __init__(self, coordinator: CheckpointCoordinator, now: timedelta, fraction: float) -> None:
        config = coordinator.config
        self._coordinator = coordinator
        self._schedule = PeriodicSchedule(
            config.interval, config.interval_during_backlog, config.min_pause, started_at=now, fraction=fraction
        )
        self._requests = 0
        self._request: str | None = None  # the periodic one that has no answer yet
        self._last_at = now  # the earliest time of the last checkpoint's request
        self.ended = False  # every source has been read, and no checkpoint has recorded it yet

    def due_at(self) -> timedelta | None:
        """Return the time of the next periodic request, unless one is waiting in the queue."""
        return None if self._request is not None else self._schedule.next_at

    def took(self, done: Round, now: timedelta) -> None:
        """Record the state of the sources after a round."""
        self._schedule.backlog(done.behind, now)
        self.ended = done.ended

    def failed(self, now: timedelta) -> None:
        """Record that a checkpoint has failed."""
        self._last_at = now + LAST_AGAIN_AFTER

    def ask_if_due(self, attempt: int, now: timedelta) -> None:
        """Request a periodic or last checkpoint for the region's `attempt`, if due. A request that has to wait is
        repeated and keeps its place. Once all sources have been read, the last checkpoint is due at once
        (protocol.md section 13)."""
        due = self._schedule.next_at
        is_due, is_last = due is not None and now >= due, self.ended and now >= self._last_at
        if not (self._request or is_last or is_due):
            return
        if self._request is None:
            if is_due:
                self._schedule.fired(now)
            self._requests += 1
            self._request = request_of_region(attempt, self._requests)
        outcome = self._coordinator.trigger(self._request, periodic=not self.ended, wait=True)
        if isinstance(outcome, Queued):
            return
        if isinstance(outcome, Dropped):
            if isinstance(outcome, DroppedUntil):
                self._schedule.dropped(outcome.again_in, now)
            elif outcome.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS:
                return  # another process dropped it from the queue: the repetition gets the time of the next attempt
            log.info("Pipeline %s: %s", self._coordinator.pipeline_id, outcome.message)
            self.failed(now)
        self._request = None

    def ask_for_people(self, requests: Sequence[CheckpointRequest], is_busy: bool) -> None:
        """Trigger the requests of users, who may not repeat them, or have no definition to trigger them with."""
        pipeline_id, config = self._coordinator.pipeline_id, self._coordinator.config
        for request in choose_to_repeat(requests, self._coordinator.context.clock.now(), is_busy, config.unaligned):
            label = Label(request.name, request.note)
            try:
                outcome = self._coordinator.trigger(
                    request.request_id, kind=request.kind, wait=True, drain=request.drain, label=label
                )
            except (IllegalRequestError, PipelineFailedError) as error:
                self._coordinator.abort_request(request.request_id, error.reason, str(error))
                log.warning("Pipeline %s: request %s: %s", pipeline_id, request.request_id, error)
                continue
            if isinstance(outcome, Dropped):
                log.info("Pipeline %s: request %s: %s", pipeline_id, request.request_id, outcome.message)
