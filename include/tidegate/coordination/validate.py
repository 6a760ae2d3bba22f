"""The validate step: has the staged data judged before any of it is visible, and aborts the checkpoint if it must.

`protocol.validate` decides what verdicts mean.
"""

from tidegate.coordination.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.lookup import find_checkpoint
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStore, Clock, StoreTransaction, Validator
from tidegate.protocol.errors import CheckpointError, ValidationFailedError
from tidegate.protocol.lifecycle import Phase
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointRecord
from tidegate.protocol.snapshot import require_same_plan
from tidegate.protocol.validate import ValidatedCheckpoint, decide_rejection, needs_validation, permit


class Validation:
    """Validates checkpoints of one pipeline. May be repeated, also by two processes at once."""

    def __init__(self, graph: Graph, store: CheckpointStore, failures: CheckpointFailureManager, clock: Clock) -> None:
        self._graph = graph
        self._pipeline_id = graph.pipeline.name
        self._store = store
        self._failures = failures
        self._clock = clock

    def validate(self, checkpoint_id: int, validator: Validator) -> ValidatedCheckpoint:
        """Judge the staged data before any of it is visible. If this is repeated, the first verdicts stand.

        Raises `ValidationFailedError` after aborting the checkpoint for a verdict that failed, is missing or holds an
        error.
        """
        with self._store.transaction(self._pipeline_id) as tx:
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            if not needs_validation(record):
                return permit(record)
            require_same_plan(record, self._graph.plan)
            if not self._graph.targets:
                return permit(self._accept(tx, record))
            subtasks = tx.subtasks(checkpoint_id)
        try:
            verdicts = list(validator.validate(record, subtasks))
        except Exception as error:
            if (ended := self._judged_meanwhile(checkpoint_id, error)) is None:
                raise
            return ended
        rejection = decide_rejection(record, self._graph.targets, verdicts)
        with self._store.transaction(self._pipeline_id) as tx:
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            if not needs_validation(record):  # another process was faster; its verdicts stand
                return permit(record)
            tx.record_verdicts(checkpoint_id, verdicts)
            if rejection is None:
                return permit(self._accept(tx, record))
            self._failures.fail_checkpoint(tx, checkpoint_id, FailureReason.VALIDATION_FAILED, rejection)
        raise ValidationFailedError(rejection)

    def _judged_meanwhile(self, checkpoint_id: int, error: Exception) -> ValidatedCheckpoint | None:
        """What became of the checkpoint during a judgement that raised: once it has ended, its files may be gone.

        None: it still waits for its verdicts. Raises as `needs_validation` does.
        """
        try:
            with self._store.transaction(self._pipeline_id) as tx:
                record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            return None if needs_validation(record) else permit(record)
        except CheckpointError as news:
            raise news from error

    def _accept(self, tx: StoreTransaction, record: CheckpointRecord) -> CheckpointRecord:
        tx.advance(record.checkpoint_id, Phase.ACKNOWLEDGED, Phase.VALIDATED, self._clock.now())
        return find_checkpoint(tx, self._pipeline_id, record.checkpoint_id)
