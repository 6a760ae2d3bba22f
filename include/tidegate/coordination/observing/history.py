"""Record a pipeline's past again, by the same steps as when it happened, so that the store's rules apply."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.branches import Restore, branch_of
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.records import OF_HOLD, Acknowledgement, SubtaskId, SubtaskRecord
from tidegate.protocol.recovery.lost_database import Recovered
from tidegate.protocol.steps.finalize import sizes
from tidegate.protocol.steps.sink_marks import without_mark


class History:
    """The past of a pipeline, recorded within one transaction, oldest first."""

    def __init__(self, tx: StoreTransaction, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self._restored = 0

    def record_restores(self, restores: Sequence[Restore], before: int) -> None:
        """Record the restores that preceded the checkpoint `before`."""
        for restore in restores[self._restored :]:
            if restore.last_checkpoint_id >= before:
                return
            self._restored += 1
            present = branch_of(None, restores[: self._restored])
            message = f"The pipeline was restored to checkpoint {restore.checkpoint_id}."
            self._tx.begin_restore(restore, present, message, 0)

    def record(self, recovered: Recovered) -> None:
        """Record a checkpoint, from its trigger to its completion. One that was in doubt completes now."""
        tx, record = self._tx, recovered.record
        subtasks = {  # whether a table here still has the same rows is unknown
            id_: replace(known, snapshot=without_mark(known.snapshot))
            for id_, known in recovered.metadata.subtasks.items()
        }
        checkpoint_id = record.checkpoint_id
        assert record.acknowledged_at is not None
        assert record.validated_at is not None
        pending = replace(record, status=Status.IN_PROGRESS, phase=Phase.TRIGGERED, num_acknowledged=0, num_finished=0)
        unknown = dict.fromkeys(("acknowledged_at", "validated_at", *OF_HOLD))
        tx.add_pending(pending.moved(**unknown), list(subtasks))
        self._acknowledge(checkpoint_id, subtasks)
        tx.advance(checkpoint_id, Phase.TRIGGERED, Phase.ACKNOWLEDGED, record.acknowledged_at)
        tx.record_verdicts(checkpoint_id, recovered.metadata.verdicts)
        if record.decided is None:
            tx.advance(checkpoint_id, Phase.ACKNOWLEDGED, Phase.VALIDATED, record.validated_at)
        else:
            assert record.held_at is not None
            assert record.held_until is not None
            tx.hold(checkpoint_id, record.held_until, record.held_message or "", record.held_at)
            tx.decide(checkpoint_id, record.decided, record.deadline)
        completed_at = self._now if recovered.marker is None else recovered.marker.completed_at
        path = metadata_path(record.pipeline_id, checkpoint_id)
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        state_size, checkpointed_size = sizes(checkpoint_id, snapshots)
        tx.complete(checkpoint_id, completed_at, path, state_size, checkpointed_size)

    def _acknowledge(self, checkpoint_id: int, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> None:
        """Record acknowledgements by attempt, in their original batches."""
        attempt = 0
        for (number, at), batch in groupby(sorted(subtasks.values(), key=_when), key=_when):
            while attempt < number:
                attempt = self._tx.begin_attempt(checkpoint_id)
            reports = [Acknowledgement(known.subtask, number, known.snapshot, known.metrics) for known in batch]
            self._tx.record_acknowledgements(checkpoint_id, reports, at)

    def record_notified(self, notified: Sequence[Recovered]) -> None:
        attempt = self._tx.begin_commit(self._now)
        for recovered in notified:
            self._tx.mark_notified(recovered.record.checkpoint_id, attempt, self._now)
        self._tx.end_commit(attempt)


def _when(known: SubtaskRecord) -> tuple[int, datetime]:
    assert known.acknowledged_at is not None
    return known.attempt, known.acknowledged_at
