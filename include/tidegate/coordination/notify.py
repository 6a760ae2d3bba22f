"""The second phase of sinks: makes visible what completed checkpoints staged, and records that it was done.

Idempotent, keyed by checkpoint id, and repeated until it succeeds (protocol.md section 16). `protocol.notify` decides
which checkpoints are still to be committed, `protocol.committing` which process commits.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.coordination.commit_attempts import Committer, take_turn
from tidegate.coordination.listeners import Listeners
from tidegate.coordination.pipeline_status import end_if_over
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.guarantees import guarantee_of
from tidegate.ports import CheckpointStore, Clock, DeliveryGuarantee
from tidegate.protocol.committing import Notified
from tidegate.protocol.errors import (
    CheckpointError,
    SinkError,
    StopIncompleteError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.finished import choose_notified
from tidegate.protocol.names import sink_of_operator
from tidegate.protocol.notify import committables
from tidegate.protocol.records import CheckpointKind, CheckpointRecord

log = logging.getLogger("tidegate")

#: How many attempts one call makes at committing a checkpoint, if other processes overtake it.
TURNS = 3


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one sink made visible with a checkpoint."""

    sink: str
    checkpoint_id: int
    rows: int
    guarantee: DeliveryGuarantee


class Delivery:
    """Commits the sinks of one pipeline. Safe to run in several processes at once: they take turns, and one that is
    stopped is overtaken."""

    def __init__(self, graph: Graph, store: CheckpointStore, clock: Clock, listeners: Listeners) -> None:
        self._pipeline = graph.pipeline
        self._pipeline_id = graph.pipeline.name
        self._sinks = {vertex.operator_id: vertex for vertex in graph.sinks}
        self._store = store
        self._clock = clock
        self._listeners = listeners

    def deliver(self, records: Sequence[CheckpointRecord]) -> None:
        """Commit the sinks of completed checkpoints, oldest first, and notify listeners. After its last checkpoint the
        pipeline has finished.

        Raises what sinks raise, `SinkError`, `SupersededAttemptError` if other processes overtook it again and again,
        and `StopIncompleteError` if the pipeline was to stop.
        """
        try:
            for record in records:
                self._deliver(record)
        except (CheckpointError, OSError) as error:
            if (last := next((r for r in records if r.kind is CheckpointKind.SYNC_SAVEPOINT), None)) is None:
                raise
            raise StopIncompleteError(
                f"Savepoint {last.checkpoint_id} of pipeline {self._pipeline_id} is complete at {last.metadata_path} "
                "on the checkpoint storage, but the pipeline has not stopped, because not every sink was notified: "
                f"{error} Nothing is lost, and nothing else completes in the meantime. Repeat the notify step, or "
                "`tidegate stop`."
            ) from error

    def _deliver(self, record: CheckpointRecord) -> None:
        """Commit one checkpoint, or wait until another process has. When overtaken, look again."""
        for turn in range(1, TURNS + 1):
            committer = take_turn(record, self._store, self._clock)
            if isinstance(committer, Notified):
                return
            try:
                return self._deliver_as(committer, record)
            except SupersededAttemptError as error:
                if turn == TURNS:
                    raise
                log.info("%s Checking again.", error)
            except Exception:
                self._release(committer)
                raise

    def _deliver_as(self, committer: Committer, record: CheckpointRecord) -> None:
        self._commit(record, committer)
        self._listeners.completed(record.checkpoint_id)
        with self._store.transaction(self._pipeline_id) as tx:
            if not tx.mark_notified(record.checkpoint_id, committer.number, self._clock.now()):
                raise committer.superseded()
            tx.end_commit(committer.number)
            # Nothing newer has completed: a checkpoint begins when the sinks of all before it have committed.
            subsumed = tx.latest_subsumed() if self._listeners else None
            end_if_over(tx, self._clock.now())
        if subsumed is not None:
            self._listeners.subsumed(subsumed)

    def _release(self, committer: Committer) -> None:
        """End the lease, so that a retry need not wait. If the store is away, the retry waits until it ends."""
        try:
            committer.release()
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning("The next commit of pipeline %s has to wait: %s", self._pipeline_id, error)

    def delivered(self, checkpoint_id: int) -> list[Delivered]:
        """What each sink has made visible of a checkpoint."""
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

    def _commit(self, record: CheckpointRecord, committer: Committer) -> None:
        subtasks = self._store.subtasks(self._pipeline_id, record.checkpoint_id)
        notified = choose_notified(subtasks)
        for plan in record.operators:
            staged = committables(subtasks, plan.operator_id)
            if plan.operator_id not in notified:
                continue
            committer.keep()
            if plan.operator_id in self._sinks:
                self._sinks[plan.operator_id].sink.commit(record.checkpoint_id, staged, committer)
            elif staged:
                raise SinkError(
                    f"Checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} completed with rows staged for "
                    f"sink {sink_of_operator(plan.operator_id)!r}, which the pipeline no longer has. They are safe in "
                    "its staging area. Put the sink back, run the notify step, then remove it."
                )
