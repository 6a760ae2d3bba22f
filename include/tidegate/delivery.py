"""The second phase of sinks: makes visible what completed checkpoints staged, and records that it was done.

Idempotent, keyed by checkpoint id, and repeated until it holds (protocol.md section 16). Which checkpoints are still to
be told is decided in `protocol.notify`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.graph import Graph
from tidegate.guarantees import guarantee_of
from tidegate.listeners import Listeners
from tidegate.pipeline_control import end_if_over
from tidegate.ports import CheckpointStore, Clock, DeliveryGuarantee, StoreTransaction
from tidegate.protocol.errors import CheckpointError, SinkError, StopIncompleteError
from tidegate.protocol.finished import choose_told
from tidegate.protocol.notify import committables
from tidegate.protocol.records import CheckpointKind, CheckpointRecord


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one sink made visible with a checkpoint."""

    sink: str
    checkpoint_id: int
    rows: int
    guarantee: DeliveryGuarantee


class Delivery:
    """Commits the sinks of one pipeline. Safe to run in several processes at once: committing twice is fine."""

    def __init__(self, graph: Graph, store: CheckpointStore, clock: Clock, listeners: Listeners) -> None:
        self._pipeline = graph.pipeline
        self._pipeline_id = graph.pipeline.name
        self._sinks = {vertex.operator_id: vertex for vertex in graph.sinks}
        self._store = store
        self._clock = clock
        self._listeners = listeners

    def deliver(self, records: Sequence[CheckpointRecord]) -> None:
        """Commit the sinks of completed checkpoints, oldest first, and tell listeners; after the last one there will be,
        the pipeline has finished.

        Raises what sinks raise, `SinkError`, and `StopIncompleteError` where the pipeline was to stop.
        """
        try:
            for record in records:
                self._deliver(record)
        except (CheckpointError, OSError) as error:
            if (last := next((r for r in records if r.kind is CheckpointKind.SYNC_SAVEPOINT), None)) is None:
                raise
            raise StopIncompleteError(
                f"Savepoint {last.checkpoint_id} of pipeline {self._pipeline_id} is complete at {last.metadata_path} on the "
                f"checkpoint storage, but the pipeline has not stopped, because not every sink was told: {error} Nothing is "
                "lost, and nothing else completes meanwhile. Repeat the notify step, or `tidegate stop`."
            ) from error

    def _deliver(self, record: CheckpointRecord) -> None:
        self._commit(record)
        self._listeners.completed(record.checkpoint_id)
        with self._store.transaction(self._pipeline_id) as tx:
            tx.mark_notified(record.checkpoint_id, self._clock.now())
            subsumed = self._pushed_out(tx, record)
            end_if_over(tx, self._clock.now())
        if subsumed is not None:
            self._listeners.subsumed(subsumed)

    def _pushed_out(self, tx: StoreTransaction, record: CheckpointRecord) -> int | None:
        """What to tell after a completion: only after the latest, as an older one has not pushed out what is gone by now."""
        latest = tx.latest_completed() if self._listeners else None
        return tx.latest_subsumed() if latest is not None and latest.checkpoint_id == record.checkpoint_id else None

    def delivered(self, checkpoint_id: int) -> list[Delivered]:
        """What each sink has of a checkpoint."""
        subtasks = self._store.subtasks(self._pipeline_id, checkpoint_id)
        return [
            Delivered(
                vertex.name,
                checkpoint_id,
                sum(handle.rows for handle in committables(subtasks, operator_id)),
                guarantee_of(self._pipeline, vertex),
            )
            for operator_id, vertex in self._sinks.items()
        ]

    def _commit(self, record: CheckpointRecord) -> None:
        subtasks = self._store.subtasks(self._pipeline_id, record.checkpoint_id)
        told = choose_told(subtasks)
        for plan in record.operators:
            staged = committables(subtasks, plan.operator_id)
            if plan.operator_id not in told:
                continue
            if plan.operator_id in self._sinks:
                self._sinks[plan.operator_id].sink.commit(record.checkpoint_id, staged)
            elif staged:
                raise SinkError(
                    f"Checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} completed with rows staged for "
                    f"sink {plan.operator_id.removesuffix('-sink')!r}, which the pipeline no longer has. They are safe in "
                    "its staging area. Put the sink back, run the notify step, then remove it."
                )
