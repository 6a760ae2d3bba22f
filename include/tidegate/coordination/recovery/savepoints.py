"""What the owner of savepoints does with them after they were taken: lists, renames and disposes of them."""

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
    """The savepoints of one pipeline; `wanted` is a name or a number."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def list(self) -> list[CheckpointRecord]:
        """Completed ones, oldest first, those that a restore left behind too."""
        with self._context.transaction() as tx:
            return _savepoints(tx)

    def find(self, wanted: str) -> CheckpointRecord:
        """Raises `CheckpointNotFoundError`."""
        return find_savepoint(self._context.pipeline_id, wanted, self.list())

    def named(self, name: str) -> CheckpointRecord | None:
        """The one of this name, in progress or completed."""
        with self._context.transaction() as tx:
            return tx.named(name)

    def relabel(self, wanted: str, label: Label, entry: AuditEntry = UNAUDITED) -> CheckpointRecord:
        """Give it another name, another note, or both; what is None stays as it is.

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
            said = f"is called {kept.name or record.checkpoint_id}."
            entry.done(tx, self._context.clock.now(), self._sentence(record, said), record.checkpoint_id)
            return record.moved(name=kept.name, note=kept.note)

    def dispose(self, wanted: str, entry: AuditEntry = UNAUDITED) -> CheckpointRecord:
        """Give it up: what nothing else refers to is deleted by the next cleaning. Of a directory of its own the marker
        goes first; then it is no savepoint any more.

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
            said = self._sentence(record, "was disposed of.", record.name)
            entry.done(tx, self._context.clock.now(), said, record.checkpoint_id)
            return record

    def _sentence(self, record: CheckpointRecord, said: str, name: str | None = None) -> str:
        return f"Savepoint {name or record.checkpoint_id} of pipeline {self._context.pipeline_id} {said}"

    def _paths(self, location: str) -> Sequence[str]:
        there = self._context.storage.elsewhere(location)
        return [path for part in PARTS for path in there.list(part)]


def _savepoints(tx: StoreTransaction) -> list[CheckpointRecord]:
    return choose_savepoints([*tx.retained(), *tx.abandoned()])
