"""The second phase of a restore: rewind the sinks to the pipeline's current position, and record that it is done.

Idempotent. Every step that commits sinks first finishes a rewind that an earlier process left unfinished.
"""

from dataclasses import dataclass

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.commit_attempts import Committer, SinkWork, in_turn
from tidegate.coordination.steps.ownership import Ownership
from tidegate.coordination.steps.sink_groups import in_groups
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import JournalingSink, Prefetch, RewindableSink, StoreTransaction
from tidegate.protocol.facts.branches import Restore, branch_of, choose_withdrawn_for_good, find_unfinished
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError, StorageError
from tidegate.protocol.steps.notify import committables


@dataclass(frozen=True, slots=True)
class _Rewindable:
    vertex: SinkVertex
    sink: RewindableSink

    @property
    def operator_id(self) -> str:
        return self.vertex.operator_id


class Rewinding:
    """Rewind the sinks of one pipeline. Safe to run in several processes at once, as `notify.Delivery` is."""

    def __init__(self, context: DefinedContext, ownership: Ownership) -> None:
        self._context = context
        self._sinks = [_Rewindable(v, v.sink) for v in context.graph.sinks if isinstance(v.sink, RewindableSink)]
        self._ownership = ownership

    def finish(self, restore: Restore) -> None:
        """Rewind every sink that can be, unless another process has done it, or the pipeline was restored again since.

        Raises the errors of sinks, `SinkError` and `SupersededAttemptError`.
        """

        def rewind(committer: Committer) -> None:
            try:
                self._rewind(committer, restore)
            except (SinkError, StateIntegrityError, StorageError) as error:
                if not self._is_left_behind(restore):
                    raise
                committer.release()  # its files may be gone by now, and are no longer needed
                raise committer.superseded() from error

        description = f"rewinding the sinks to checkpoint {restore.checkpoint_id}"
        work = SinkWork(description, lambda tx: _is_over(tx, restore))
        in_turn(self._context, work, rewind)

    def _is_left_behind(self, restore: Restore) -> bool:
        with self._context.transaction() as tx:
            return _is_over(tx, restore)

    def _rewind(self, committer: Committer, restore: Restore) -> None:
        with self._context.transaction() as tx:
            branch = branch_of(restore.goes_on_from, tx.restores())
        subtasks = self._context.store.subtasks(self._context.pipeline_id, restore.goes_on_from)
        for group in in_groups((sink.vertex, committables(subtasks, sink.operator_id)) for sink in self._sinks):
            committer.keep()
            for vertex in group.vertices:
                self._ownership.require_own(vertex, restore.goes_on_from)
            group.rewind(restore.goes_on_from, branch, committer)
        with self._context.transaction() as tx:
            if not tx.mark_rewound(restore.number, committer.number, self._context.clock.now()):
                raise committer.superseded()
            tx.end_commit(committer.number)

    def find_withdrawn(self) -> dict[str, list[int]]:
        """Return the checkpoints whose rows each sink has withdrawn and keeps, by the sink's operator id."""
        return {each.operator_id: ids for each in self._own() if (ids := each.sink.withdrawn())}

    def _own(self) -> list[_Rewindable]:
        return [each for each in self._sinks if not self._ownership.is_foreign(each.vertex)]

    def delete_withdrawn(self) -> None:
        """Delete rows that no restore can bring back: withdrawn ones, and copies of replaced ones that sinks keep."""
        self._forget()
        withdrawn = self.find_withdrawn()
        if not withdrawn:
            return

        def for_good(tx: StoreTransaction) -> dict[str, list[int]]:
            restores, completed = tx.restores(), [*tx.retained(), *tx.abandoned()]
            chosen = {id_: choose_withdrawn_for_good(ids, completed, restores) for id_, ids in withdrawn.items()}
            return {id_: ids for id_, ids in chosen.items() if ids}

        def delete(committer: Committer) -> None:
            with self._context.transaction() as tx:
                chosen = for_good(tx)
            for sink in self._own():
                if ids := chosen.get(sink.operator_id):
                    committer.keep()
                    sink.sink.delete_withdrawn(ids, committer)
            committer.release()

        work = SinkWork("deleting withdrawn rows", lambda tx: not for_good(tx))
        in_turn(self._context, work, delete)

    def _forget(self) -> None:
        """Delete the copies that only a restore to a deleted checkpoint would need. No other attempt
        has to be fenced."""
        journaling = [each.sink for each in self._own() if isinstance(each.sink, JournalingSink)]
        if not journaling:
            return
        with self._context.transaction(Prefetch(completed=True)) as tx:
            kept = [record.checkpoint_id for record in (*tx.retained(), *tx.abandoned())]
        for sink in journaling if kept else ():
            sink.forget(kept)


def _is_over(tx: StoreTransaction, restore: Restore) -> bool:
    """Whether the sinks are rewound, or the pipeline was restored again since."""
    unfinished = find_unfinished(tx.restores())
    return unfinished is None or unfinished.number != restore.number
