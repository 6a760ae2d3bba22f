"""Takes an acknowledged checkpoint of a continuous run through validate, finalize and notify, in a thread beside the
rounds, so that rows flow on meanwhile."""

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
    """One checkpoint at a time: a newer one has the rows of those that wait, so nothing is gained by judging several
    at once."""

    def __init__(self, coordinator: CheckpointCoordinator, validator: Validator) -> None:
        self._coordinator = coordinator
        self._validator = validator
        self._under_way: Future[None] | None = None
        self._checkpoint_id = 0

    def __bool__(self) -> bool:
        """Whether a checkpoint is being completed, or was and nobody has asked what came of it."""
        return self._under_way is not None

    @property
    def has_ended(self) -> bool:
        return self._under_way is not None and self._under_way.done()

    def start(self, checkpoint_id: int, beside: Executor) -> None:
        """After another one has ended. Raises the error that stopped that."""
        self.wait()
        self._under_way, self._checkpoint_id = beside.submit(self.complete, checkpoint_id), checkpoint_id

    def wait(self) -> None:
        """Until it has ended. Raises the error that stopped it."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def forget_unless(self, following: int | None) -> None:
        """Unless this checkpoint still is the one to complete, what came of it is known from the store: a person has to
        decide, it failed, or the sinks have committed. Its thread may end later than that is seen."""
        if self.has_ended and self._checkpoint_id != following:
            self._under_way = None

    def complete(self, checkpoint_id: int) -> None:
        """If the store is away or the outcome unknown, it is to be tried again. Raises what a sink raises: the next run
        commits the sinks first."""
        try:
            if self.finalized(checkpoint_id):
                self._coordinator.notify(checkpoint_id)
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning(
                "Pipeline %s: checkpoint %s is retried: %s", self._coordinator.pipeline_id, checkpoint_id, error
            )

    def finalized(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint has passed the commit point; if not, it was aborted or is held."""
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
            reason, what = FailureReason.FINALIZE_CHECKPOINT_FAILURE, f"{type(error).__name__}: {error}"
            if isinstance(error, CheckpointError):
                reason, what = error.reason, str(error)
            self._coordinator.abort(checkpoint_id, reason, what)
            return False
        return True
