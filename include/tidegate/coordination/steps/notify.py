"""The second phase: marks completed checkpoints on storage, makes visible what they staged, and records that it was
done.

Idempotent, keyed by checkpoint id, and repeated until it succeeds (protocol.md section 16). `protocol.steps.notify`
decides which checkpoints are still to be committed, `protocol.steps.committing` which process commits.
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

#: Of how many subtasks a checkpoint has at most, so that a look at the garbage holds up no sink.
_NARROW = 1000


class Delivery:
    """Commits the sinks of one pipeline. Safe to run in several processes at once: they take turns, and one that is
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
        """Take the turn of a completed checkpoint's commit, if nothing else is to be done before, and look what is to
        be cleaned along. It counts once the transaction has committed: else the attempt may be another one's."""
        subtasks = tx.subtasks(record.checkpoint_id) if known is None else known
        outstanding = find_outstanding(tx, record.checkpoint_id)
        cleaning = self._clean_along()
        if record.num_subtasks <= _NARROW:
            cleaning.look(tx)
        turn = None
        if outstanding.restore is None and outstanding.unnotified:
            turn = take(tx, self._context, self._work(outstanding.unnotified[0]))
        return Begun(replace(outstanding, subtasks={record.checkpoint_id: subtasks}, turn=turn), subtasks, cleaning)

    def has_begun(self, record: CheckpointRecord, begun: Begun) -> None:
        """That transaction has committed: `deliver_up_to` goes on from there."""
        self._begun = {record.checkpoint_id: begun}

    def deliver_up_to(self, checkpoint_id: int) -> list[Delivered]:
        """Everything that is outstanding as far as a completed checkpoint, then the rest of the cleaning. Returns what
        that delivered, also if it was delivered before, unless its history is rolled up. Raises `FinalizeError` and
        others if it has not completed, and as `deliver`."""
        begun = self._begun.pop(checkpoint_id, None) or self._look(checkpoint_id)
        self.deliver(begun.outstanding, begun.cleaning)
        begun.cleaning.end()
        return self._delivered(checkpoint_id, begun.subtasks)

    def _look(self, checkpoint_id: int) -> Begun:
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
        """Everything that is outstanding. Raises as `deliver`."""
        with self._context.transaction(Prefetch()) as tx:
            outstanding = find_outstanding(tx)
        self.deliver(outstanding)

    def deliver(self, outstanding: Outstanding, cleaning: CleansAlong | None = None) -> None:
        """Rewind the sinks after a restore, commit those of completed checkpoints, and notify listeners. After its last
        checkpoint the pipeline has finished. A cleaning goes along with the last of them.

        Raises what sinks raise, `SinkError`, `SupersededAttemptError` if other processes overtook it again and again,
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
        begun = self._begun.pop(record.checkpoint_id, None)  # if this process goes on without the notify step
        in_turn(
            self._context,
            self._work(record),
            lambda committer: self._deliver_as(committer, record, outstanding, cleaning),
            outstanding.turn or (None if begun is None else begun.outstanding.turn),
        )

    def _work(self, record: CheckpointRecord) -> SinkWork:
        def is_done(tx: StoreTransaction) -> bool:
            """Also if a restore has left it behind since somebody looked: its rows are not to be shown."""
            known = tx.checkpoint(record.checkpoint_id)
            return known is not None and (known.notified_at is not None or known.abandoned_by is not None)

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
            committer.release()  # its files may be gone by now, and nobody needs them
            raise committer.superseded() from error
        self._listeners.completed(record.checkpoint_id)
        subsumed = self._record(committer, record, cleaning)
        if subsumed is not None:
            self._listeners.subsumed(subsumed)

    def _record(self, committer: Committer, record: CheckpointRecord, cleaning: CleansAlong | None) -> int | None:
        """That the sinks have committed, and what was cleaned along. Returns what listeners are to be told of."""
        if cleaning is not None:
            cleaning.delete()
        try:
            with self._context.transaction() as tx:
                if not tx.mark_notified(record.checkpoint_id, committer.number, self._context.clock.now(), ends=True):
                    raise committer.superseded()
                # Nothing newer has completed: a checkpoint begins when the sinks of all before it have committed.
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
        """What the sinks have staged; None if the pipeline was restored since somebody looked what is outstanding."""
        known = outstanding.subtasks.get(record.checkpoint_id)
        if known is not None and committer is outstanding.turn:  # begun by who looked, in the same transaction
            return known
        with self._context.transaction() as tx:
            if find_unfinished(tx.restores()) is not None:
                return None
            return known or tx.subtasks(record.checkpoint_id)

    def _is_over(self, record: CheckpointRecord) -> bool:
        """Whether another attempt has delivered the checkpoint, or a restore has left it behind."""
        with self._context.transaction() as tx:
            return self._work(record).is_done(tx)

    def _mark(self, record: CheckpointRecord, restores: Sequence[Restore], committer: Committer) -> None:
        """Say beside the metadata that it was committed, before any row is visible: if the database is lost, what is
        visible is known to be.

        Raises `StorageError`, `StateIntegrityError` if the metadata is gone, and `SupersededAttemptError` if that is
        because others have taken over long ago.
        """
        try:
            self._write_marker(record, restores, committer.number)
        except (StateIntegrityError, StorageError):
            committer.confirm()
            raise

    def _mark_restored(self) -> None:
        """The same for a restore, beside the checkpoint that the pipeline goes on from: no later one says it yet."""
        with self._context.transaction() as tx:
            restores, attempt = tx.restores(), tx.committer().attempt
            restore = find_unfinished(restores)
            record = None if restore is None else tx.checkpoint(restore.goes_on_from)
        if restore is None or record is None:
            return
        try:
            self._write_marker(record, restores, attempt)
        except StateIntegrityError:  # unless the pipeline was restored again since, and that checkpoint given up
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
        except StorageError:  # a sweep at the same moment takes the unfinished file for a leftover, and once only
            self._context.storage.write(path, content)

    def _delivered(self, checkpoint_id: int, subtasks: Subtasks) -> list[Delivered]:
        """What each sink has made visible of a checkpoint; nothing of one whose history is rolled up, which ended long
        ago: how many rows each staged is not kept."""
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
        notified, missing, found = (
            choose_notified(subtasks, self._keeping),
            list[str](),
            list[tuple[SinkVertex, Sequence[StateHandle]]](),
        )
        for plan in record.operators:
            staged = committables(subtasks, plan.operator_id)
            if plan.operator_id not in notified or plan.operator_id in record.committed_sinks:
                continue
            if plan.operator_id in self._sinks:
                found.append((self._sinks[plan.operator_id], staged))
            elif staged:
                missing.append(sink_of_operator(plan.operator_id))
        for group in in_groups(found):
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
