"""Take an acknowledged checkpoint of a continuous run through validate, finalize and notify in a background thread, so
that rows keep flowing."""

import logging
from concurrent.futures import Executor, Future

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import Validator
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointHeldError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.reasons import FailureReason

log = logging.getLogger("tidegate")


class Completing:
    """Complete one checkpoint at a time. A newer checkpoint has the rows of those that wait, so validating several at
    once gains nothing."""

    def __init__(self, coordinator: CheckpointCoordinator, validator: Validator) -> None:
        self._coordinator = coordinator
        self._validator = validator
        self._under_way: Future[None] | None = None
        self._checkpoint_id = 0

    def __bool__(self) -> bool:
        """Whether a checkpoint is being completed, or was and its result was not taken."""
        return self._under_way is not None

    @property
    def has_ended(self) -> bool:
        return self._under_way is not None and self._under_way.done()

    def start(self, checkpoint_id: int, background: Executor) -> None:
        """Start a completion after the previous one has ended. Raises the error that stopped the previous one."""
        self.wait()
        self._under_way, self._checkpoint_id = background.submit(self.complete, checkpoint_id), checkpoint_id

    def wait(self) -> None:
        """Wait until the completion has ended. Raises the error that stopped it."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def forget_unless(self, following: int | None) -> None:
        """Forget an ended completion, unless its checkpoint is still the one to complete. Otherwise the store has its
        outcome: it is held, has failed, or its sinks have committed. Its thread may end later than the store shows
        that."""
        if self.has_ended and self._checkpoint_id != following:
            self._under_way = None

    def complete(self, checkpoint_id: int) -> None:
        """Complete one checkpoint. If the store is unavailable or the outcome unknown, it must be repeated. Raises the
        errors of sinks, which the next run commits first."""
        try:
            if self.finalized(checkpoint_id):
                self._coordinator.notify(checkpoint_id)
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning(
                "Pipeline %s: checkpoint %s is retried: %s", self._coordinator.pipeline_id, checkpoint_id, error
            )

    def finalized(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint has passed the commit point. If not, it was aborted or is held."""
        try:
            self._coordinator.validate(checkpoint_id, self._validator)
            self._coordinator.finalize(checkpoint_id, notifies=True)
        except (StoreUnavailableError, UnknownOutcomeError):
            raise
        except CheckpointHeldError as held:
            log.warning("Pipeline %s: %s", self._coordinator.pipeline_id, held)
            return False
        except Exception as error:
            log.error("Pipeline %s: checkpoint %s: %s", self._coordinator.pipeline_id, checkpoint_id, error)
            reason, message = FailureReason.FINALIZE_CHECKPOINT_FAILURE, f"{type(error).__name__}: {error}"
            if isinstance(error, CheckpointError):
                reason, message = error.reason, str(error)
            self._coordinator.abort(checkpoint_id, reason, message)
            return False
        return True
