"""Asks for the checkpoints of a continuous run: the periodic ones, the last one, and those that people ask for."""

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

#: How long the last checkpoint of a pipeline waits after a failure: the same cause might fail it again at once.
LAST_AGAIN_AFTER = timedelta(seconds=10)


class Asking:
    """Of one attempt. `now` is on the monotonic clock of its process."""

    def __init__(self, coordinator: CheckpointCoordinator, now: timedelta, fraction: float) -> None:
        config = coordinator.config
        self._coordinator = coordinator
        self._schedule = PeriodicSchedule(
            config.interval, config.interval_during_backlog, config.min_pause, started_at=now, fraction=fraction
        )
        self._asked = 0
        self._request: str | None = None  # the periodic one that has not been answered yet
        self._last_at = now  # when the last checkpoint may be asked for
        self.ended = False  # every source has been read, and no checkpoint says so yet

    def due_at(self) -> timedelta | None:
        """When the next periodic checkpoint is to be asked for, unless one has to wait its turn."""
        return None if self._request is not None else self._schedule.next_at

    def took(self, done: Round, now: timedelta) -> None:
        """What a round has found out about the sources."""
        self._schedule.backlog(done.behind, now)
        self.ended = done.ended

    def failed(self, now: timedelta) -> None:
        """A checkpoint has failed."""
        self._last_at = now + LAST_AGAIN_AFTER

    def ask_if_due(self, attempt: int, now: timedelta) -> None:
        """For the region's `attempt`. A request that has to wait is repeated, and keeps its place. Once everything has
        been read, the last checkpoint is due at once (protocol.md section 13)."""
        due = self._schedule.next_at
        is_due, is_last = due is not None and now >= due, self.ended and now >= self._last_at
        if not (self._request or is_last or is_due):
            return
        if self._request is None:
            if is_due:
                self._schedule.fired(now)
            self._asked += 1
            self._request = request_of_region(attempt, self._asked)
        outcome = self._coordinator.trigger(self._request, periodic=not self.ended, wait=True)
        if isinstance(outcome, Queued):
            return
        if isinstance(outcome, Dropped):
            if isinstance(outcome, DroppedUntil):
                self._schedule.dropped(outcome.again_in, now)
            elif outcome.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS:
                return  # dropped by another process's look at the queue: repeated, the request learns until when
            log.info("Pipeline %s: %s", self._coordinator.pipeline_id, outcome.message)
            self.failed(now)
        self._request = None

    def ask_for_people(self, requests: Sequence[CheckpointRequest], is_busy: bool) -> None:
        """Whoever has handed a request over cannot repeat it, or has no definition to trigger it with."""
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
