"""The second phase: mark completed checkpoints on storage, make their staged rows visible, and record that it is done.

Idempotent, keyed by checkpoint id, and repeated until it succeeds (protocol.md section 16). `protocol.steps.notify`
decides which checkpoints remain to be committed, `protocol.steps.committing` decides which process commits.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.listeners import Listeners
from tidegate.coordination.steps.commit_attempts import Committer, SinkWork, in_turn, take
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.coordination.steps.outstanding import (
    Begun,
    CleansAlong,
    Delivered,
    Outstanding,
    Subtasks,
    find_outstanding,
)
from tidegate.coordination.steps.ownership import Ownership
from tidegate.coordination.steps.participating import keeping_sinks
from tidegate.coordination.steps.pipeline_status import end_if_over
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.coordination.steps.sink_groups import in_groups
from tidegate.pipeline.guarantees import guarantee_of
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import Prefetch, StateHandle, StoreTransaction
from tidegate.protocol.facts.branches import Restore, find_unfinished, require_present
from tidegate.protocol.facts.errors import (
    CheckpointError,
    FinalizeError,
    RecordRefusedError,
    SinkError,
    StateIntegrityError,
    StopIncompleteError,
    StorageError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import sink_of_operator
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.recovery.marker import marker_document, marker_of
from tidegate.protocol.steps.finished import choose_notified
from tidegate.protocol.steps.notify import committables
from tidegate.protocol.steps.snapshot import ended_error
from tidegate.protocol.steps.stopping import may_end

#: The highest number of subtasks of a checkpoint for which garbage is read in the same transaction, so that no sink
#: waits.
_NARROW = 1000


class Delivery:
    """Commit the sinks of one pipeline. Safe to run in several processes at once: they take turns, and one that is
    stopped is overtaken."""

    def __init__(
        self,
        context: DefinedContext,
        listeners: Listeners,
        rewinding: Rewinding,
        clean_along: Callable[[], CleansAlong],
        ownership: Ownership,
    ) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._ownership = ownership
        self._sinks = {vertex.operator_id: vertex for vertex in context.graph.sinks}
        self._keeping = keeping_sinks(context.graph)
        self._listeners = listeners
        self._rewinding = rewinding
        self._clean_along = clean_along
        self._begun: dict[int, Begun] = {}

    def begin(self, tx: StoreTransaction, record: CheckpointRecord, known: Subtasks | None = None) -> Begun:
        """Take the turn of a completed checkpoint's commit, unless other work precedes it, and read the garbage to
        delete along with it. The result is valid once the transaction has committed: otherwise the attempt may be
        another process's."""
        subtasks = tx.subtasks(record.checkpoint_id) if known is None else known
        outstanding = find_outstanding(tx, record.checkpoint_id)
        cleaning = self._clean_along()
        if record.num_subtasks <= _NARROW:
            cleaning.check(tx)
        turn = None
        if outstanding.restore is None and outstanding.unnotified:
            turn = take(tx, self._context, self._work(outstanding.unnotified[0]))
        return Begun(replace(outstanding, subtasks={record.checkpoint_id: subtasks}, turn=turn), subtasks, cleaning)

    def has_begun(self, record: CheckpointRecord, begun: Begun) -> None:
        """Remember that the transaction of `begin` has committed. `deliver_up_to` continues from there."""
        self._begun = {record.checkpoint_id: begun}

    def deliver_up_to(self, checkpoint_id: int) -> list[Delivered]:
        """Deliver everything outstanding up to a completed checkpoint, then finish the cleaning. Return the deliveries
        of that checkpoint, also those made before, unless its history is rolled up. Raises `FinalizeError` and
        others if it has not completed, and as `deliver`."""
        begun = self._begun.pop(checkpoint_id, None) or self._read(checkpoint_id)
        self.deliver(begun.outstanding, begun.cleaning)
        begun.cleaning.end()
        return self._delivered(checkpoint_id, begun.subtasks)

    def _read(self, checkpoint_id: int) -> Begun:
        with self._context.transaction(Prefetch(completed=True)) as tx:
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            if record.status not in COMMITTED:
                raise (
                    ended_error(record)
                    if record.status is Status.FAILED
                    else FinalizeError(
                        f"Checkpoint {checkpoint_id} of pipeline {self._pipeline_id} has not completed; sinks are "
                        "notified only after the commit point. Run the finalize step first."
                    )
                )
            require_present(record)
            return self.begin(tx, record)

    def deliver_pending(self) -> None:
        """Deliver everything outstanding. Raises as `deliver`."""
        with self._context.transaction(Prefetch()) as tx:
            outstanding = find_outstanding(tx)
        self.deliver(outstanding)

    def deliver(self, outstanding: Outstanding, cleaning: CleansAlong | None = None) -> None:
        """Rewind the sinks after a restore, commit those of completed checkpoints, and notify listeners. After its last
        checkpoint the pipeline has finished. The last delivery includes a cleaning.

        Raises the errors of sinks, `SinkError`, `SupersededAttemptError` if other processes overtook it repeatedly,
        and `StopIncompleteError` if the pipeline was to stop.
        """
        if outstanding.restore is not None:
            self._mark_restored()
            self._rewinding.finish(outstanding.restore)
        records = outstanding.unnotified
        try:
            for record in records:
                self._deliver(record, outstanding, cleaning if record is records[-1] else None)
                outstanding = replace(outstanding, turn=None)
        except (CheckpointError, OSError) as error:
            if (last := next((r for r in records if r.kind is CheckpointKind.SYNC_SAVEPOINT), None)) is None:
                raise
            raise StopIncompleteError(
                f"Savepoint {last.checkpoint_id} of pipeline {self._pipeline_id} is complete at {last.metadata_path} "
                "on the checkpoint storage, but the pipeline has not stopped, because not every sink was notified: "
                f"{error} Nothing is lost, and nothing else completes in the meantime. Repeat the notify step, or "
                "`tidegate stop`."
            ) from error

    def _deliver(self, record: CheckpointRecord, outstanding: Outstanding, cleaning: CleansAlong | None) -> None:
        """Commit one checkpoint, or wait until another process has."""
        begun = self._begun.pop(record.checkpoint_id, None)  # if this process continues without the notify step
        in_turn(
            self._context,
            self._work(record),
            lambda committer: self._deliver_as(committer, record, outstanding, cleaning),
            outstanding.turn or (None if begun is None else begun.outstanding.turn),
        )

    def _work(self, record: CheckpointRecord) -> SinkWork:
        def is_done(tx: StoreTransaction) -> bool:
            """Whether the checkpoint is delivered. True also if a restore has abandoned it meanwhile: its rows must not
            be shown."""
            current = tx.checkpoint(record.checkpoint_id)
            return current is not None and (current.notified_at is not None or current.abandoned_by is not None)

        return SinkWork(f"committing the sinks of checkpoint {record.checkpoint_id}", is_done)

    def _deliver_as(
        self,
        committer: Committer,
        record: CheckpointRecord,
        outstanding: Outstanding,
        cleaning: CleansAlong | None,
    ) -> None:
        if (subtasks := self._to_commit(committer, record, outstanding)) is None:
            committer.release()
            raise committer.superseded()
        try:
            self._mark(record, outstanding.restores, committer)
            self._commit(record, subtasks, committer)
        except (SinkError, StateIntegrityError, StorageError) as error:
            if not self._is_over(record):
                raise
            committer.release()  # its files may be gone by now, and are no longer needed
            raise committer.superseded() from error
        self._listeners.completed(record.checkpoint_id)
        subsumed = self._record(committer, record, cleaning)
        if subsumed is not None:
            self._listeners.subsumed(subsumed)

    def _record(self, committer: Committer, record: CheckpointRecord, cleaning: CleansAlong | None) -> int | None:
        """Record that the sinks have committed, and the files that were deleted. Return the subsumed checkpoint to
        report to listeners."""
        if cleaning is not None:
            cleaning.delete()
        try:
            with self._context.transaction() as tx:
                if not tx.mark_notified(record.checkpoint_id, committer.number, self._context.clock.now(), ends=True):
                    raise committer.superseded()
                # Nothing newer has completed: a checkpoint begins after the sinks of all earlier ones have committed.
                subsumed = tx.latest_subsumed() if self._listeners else None
                if may_end(tx.pipeline(), record):
                    end_if_over(tx, self._context.clock.now())
                if cleaning is not None:
                    cleaning.record(tx)
                return subsumed
        except RecordRefusedError:
            if cleaning is None or not cleaning.refused():
                raise
            return self._record(committer, record, None)

    def _to_commit(self, committer: Committer, record: CheckpointRecord, outstanding: Outstanding) -> Subtasks | None:
        """Return the staged handles; None if the pipeline was restored since the outstanding work was read."""
        known = outstanding.subtasks.get(record.checkpoint_id)
        if known is not None and committer is outstanding.turn:  # the attempt began in the transaction that read them
            return known
        with self._context.transaction() as tx:
            if find_unfinished(tx.restores()) is not None:
                return None
            return known or tx.subtasks(record.checkpoint_id)

    def _is_over(self, record: CheckpointRecord) -> bool:
        """Whether another attempt has delivered the checkpoint, or a restore has abandoned it."""
        with self._context.transaction() as tx:
            return self._work(record).is_done(tx)

    def _mark(self, record: CheckpointRecord, restores: Sequence[Restore], committer: Committer) -> None:
        """Write a marker next to the metadata, before any row is visible. If the database is lost, the marker shows
        that the rows are visible.

        Raises `StorageError`, `StateIntegrityError` if the metadata is gone, and `SupersededAttemptError` if it is
        gone because other processes took over long ago.
        """
        try:
            self._write_marker(record, restores, committer.number)
        except (StateIntegrityError, StorageError):
            committer.confirm()
            raise

    def _mark_restored(self) -> None:
        """Write the marker of a restore, next to the checkpoint that the pipeline continues from. No later checkpoint
        has it yet."""
        with self._context.transaction() as tx:
            restores, attempt = tx.restores(), tx.committer().attempt
            restore = find_unfinished(restores)
            record = None if restore is None else tx.checkpoint(restore.goes_on_from)
        if restore is None or record is None:
            return
        try:
            self._write_marker(record, restores, attempt)
        except StateIntegrityError:  # unless the pipeline was restored again since, and that checkpoint abandoned
            with self._context.transaction() as tx:
                unfinished = find_unfinished(tx.restores())
            if unfinished is not None and unfinished.number == restore.number:
                raise

    def _write_marker(self, record: CheckpointRecord, restores: Sequence[Restore], commit_attempt: int) -> None:
        assert record.metadata_path is not None
        marker = marker_of(record, self._context.storage.read(record.metadata_path), restores, commit_attempt)
        path = marker_path(self._pipeline_id, record.checkpoint_id)
        content = json.dumps(marker_document(marker)).encode()
        try:
            self._context.storage.write(path, content)
        except StorageError:  # a sweep at the same moment may take the unfinished file for a leftover, but only once
            self._context.storage.write(path, content)

    def _delivered(self, checkpoint_id: int, subtasks: Subtasks) -> list[Delivered]:
        """Return the rows that each sink has made visible with a checkpoint. Empty for a checkpoint whose history is
        rolled up: it ended long ago, and its numbers of staged rows are not kept."""
        if not subtasks:
            return []
        return [
            Delivered(
                vertex.name,
                checkpoint_id,
                sum(handle.rows for handle in committables(subtasks, operator_id)),
                guarantee_of(self._context.pipeline, vertex),
            )
            for operator_id, vertex in self._sinks.items()
        ]

    def _commit(self, record: CheckpointRecord, subtasks: Subtasks, committer: Committer) -> None:
        notified, missing, to_commit = (
            choose_notified(subtasks, self._keeping),
            list[str](),
            list[tuple[SinkVertex, Sequence[StateHandle]]](),
        )
        for plan in record.operators:
            staged = committables(subtasks, plan.operator_id)
            if plan.operator_id not in notified or plan.operator_id in record.committed_sinks:
                continue
            if plan.operator_id in self._sinks:
                to_commit.append((self._sinks[plan.operator_id], staged))
            elif staged:
                missing.append(sink_of_operator(plan.operator_id))
        for group in in_groups(to_commit):
            committer.keep()
            for vertex in group.vertices:
                self._ownership.require_own(vertex, record.checkpoint_id)
            group.commit(record.checkpoint_id, committer)
        if missing:
            raise SinkError(
                f"Checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} completed with rows staged for "
                f"sink {missing[0]!r}, which the pipeline no longer has. They are safe in its staging area. Put the "
                "sink back, run the notify step, then remove it."
            )
