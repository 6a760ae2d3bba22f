"""List, rename and dispose of savepoints, as their owner requests."""

from collections.abc import Sequence

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.facts.savepoints import (
    Label,
    choose_savepoints,
    find_savepoint,
    require_disposable,
    require_free,
    require_legal_label,
)
from tidegate.protocol.recovery.canonical import PARTS
from tidegate.protocol.recovery.imports import files_in_order


class Savepoints:
    """The savepoints of one pipeline. `wanted` is a name or a number."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def list(self) -> list[CheckpointRecord]:
        """Return the completed savepoints, oldest first, including those that a restore has abandoned."""
        with self._context.transaction() as tx:
            return _savepoints(tx)

    def find(self, wanted: str) -> CheckpointRecord:
        """Return a savepoint. Raise `CheckpointNotFoundError` if there is none."""
        return find_savepoint(self._context.pipeline_id, wanted, self.list())

    def named(self, name: str) -> CheckpointRecord | None:
        """Return the savepoint of this name, in progress or completed."""
        with self._context.transaction() as tx:
            return tx.named(name)

    def relabel(self, wanted: str, label: Label, entry: AuditEntry = UNAUDITED) -> CheckpointRecord:
        """Change the name or note of a savepoint, or both. A value of None keeps the current one.

        Raises `CheckpointNotFoundError`, `IllegalRequestError`.
        """
        with self._context.transaction() as tx:
            record = find_savepoint(self._context.pipeline_id, wanted, _savepoints(tx))
            require_legal_label(record.kind, label)
            holder = None if label.name is None else tx.named(label.name)
            if holder is not None and holder.checkpoint_id != record.checkpoint_id:
                require_free(label.name, holder)
            kept = Label(label.name or record.name, record.note if label.note is None else label.note)
            tx.relabel(record.checkpoint_id, kept)
            predicate = f"is called {kept.name or record.checkpoint_id}."
            entry.done(tx, self._context.clock.now(), self._sentence(record, predicate), record.checkpoint_id)
            return record.moved(name=kept.name, note=kept.note)

    def dispose(self, wanted: str, entry: AuditEntry = UNAUDITED) -> CheckpointRecord:
        """Dispose of a savepoint. The next cleaning deletes the files that nothing else refers to. If the savepoint has
        its own directory, the marker is deleted first, so that the rest is no savepoint.

        Raises `CheckpointNotFoundError`, `SavepointInUseError`, and `StorageError` if that directory cannot be read.
        """
        location = self.find(wanted).location
        deletions = [] if location is None else files_in_order(location, self._paths(location))
        with self._context.transaction() as tx:
            record = find_savepoint(self._context.pipeline_id, wanted, _savepoints(tx))
            require_disposable(record, tx.latest_completed(), tx.restores())
            tx.subsume([record.checkpoint_id])
            if record.location == location:
                tx.enqueue_deletions(deletions)
            sentence = self._sentence(record, "was disposed of.", record.name)
            entry.done(tx, self._context.clock.now(), sentence, record.checkpoint_id)
            return record

    def _sentence(self, record: CheckpointRecord, predicate: str, name: str | None = None) -> str:
        return f"Savepoint {name or record.checkpoint_id} of pipeline {self._context.pipeline_id} {predicate}"

    def _paths(self, location: str) -> Sequence[str]:
        directory = self._context.storage.elsewhere(location)
        return [path for part in PARTS for path in directory.list(part)]


def _savepoints(tx: StoreTransaction) -> list[CheckpointRecord]:
    return choose_savepoints([*tx.retained(), *tx.abandoned()])
