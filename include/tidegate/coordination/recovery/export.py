"""Write a savepoint to a directory of its own, complete and relocatable.

The savepoint was taken before, like any other. Every later step may be repeated and writes the same. The marker in
the directory is written last. The next process that finds an unfinished export completes it.
"""

from dataclasses import replace

from tidegate.coordination.cleaning.deletion_queue import ASKED
from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import AuditEntry, Auditing
from tidegate.coordination.recovery.savepoint_directory import write_documents
from tidegate.coordination.steps.notify import Delivery
from tidegate.ports import Exporter, PortableSink, StoreTransaction
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    IllegalRequestError,
    SavepointExportError,
    StateIntegrityError,
    StorageError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import saved_at
from tidegate.protocol.facts.paths import default_location, metadata_path
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.facts.savepoints import choose_savepoints, find_savepoint, require_exportable
from tidegate.protocol.observing.actions import UserAction
from tidegate.protocol.recovery.canonical import (
    MARKER,
    METADATA,
    PARTS,
    exported,
    plan_export,
)
from tidegate.protocol.recovery.metadata import read_metadata


class Exporting:
    """Export the savepoints of one pipeline."""

    def __init__(self, context: DefinedContext, delivery: Delivery) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._delivery = delivery
        self._auditing = Auditing(context)

    def require_possible(self, location: str | None) -> None:
        """Require that a canonical savepoint can be written. Must be called before one is taken. Raises
        `ConfigurationError` for a sink whose files cannot be exported, or a directory that has other contents, and
        `StorageError`."""
        restaged = [
            vertex for vertex in self._context.graph.sinks if vertex.operator_id in self._context.graph.restaged
        ]
        fixed = [vertex.name for vertex in restaged if not isinstance(vertex.sink, PortableSink)]
        if fixed:
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be canonical: the staged files of sink "
                f"{', '.join(fixed)} cannot be taken along. Nothing was changed. Take a native one."
            )
        if location is None or self._serves(location):
            return
        paths = self._context.storage.elsewhere(location).list("")
        if paths and not self._serves(location):  # another process may have begun since, with the same request
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {location}: it already contains "
                f"{paths[0]}. Nothing was changed. Name a directory that is empty, or does not exist yet."
            )

    def _serves(self, location: str) -> bool:
        """Whether a savepoint is written there, perhaps by the same request: see `begin`. Raises `ConfigurationError`
        if it was disposed of."""
        with self._context.transaction() as tx:
            served = tx.written_to(location)
        if served and not any(record.status is Status.COMPLETED for record in served):
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {location}: savepoint "
                f"{served[-1].checkpoint_id} was there and has been disposed of, and a directory is used only once. "
                "Nothing was changed. Name another directory."
            )
        return bool(served)

    def begin(self, wanted: str, location: str | None = None, action: UserAction | None = None) -> CheckpointRecord:
        """Record the directory of the savepoint of this name or number, by default one near the pipeline's checkpoints.

        Repeating it is safe. Raises `CheckpointNotFoundError`, `IllegalRequestError` if it was written elsewhere,
        and as `require_possible`.
        """
        with self._auditing.attempt(action) as entry:
            return self._begin(wanted, location, entry)

    def _begin(self, wanted: str, location: str | None, entry: AuditEntry) -> CheckpointRecord:
        with self._context.transaction() as tx:
            record = find_savepoint(self._pipeline_id, wanted, _savepoints(tx))
        where = location or record.location or self._default(record)
        self.require_possible(where)
        with self._context.transaction() as tx:
            record = find_savepoint(self._pipeline_id, wanted, _savepoints(tx))
            require_exportable(record)
            if record.location not in (None, where):
                raise IllegalRequestError(
                    f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} is written to "
                    f"{record.location}. Nothing was changed. Copy that directory to where you want it, with any tool: "
                    "it is a savepoint there, too."
                )
            if record.location is None:
                self._require_unused(tx, record, where)
                tx.begin_export(record.checkpoint_id, where)
            message = f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} is written to"
            entry.done(tx, self._context.clock.now(), f"{message} {where}.", record.checkpoint_id)
            return record.moved(location=where)

    def _require_unused(self, tx: StoreTransaction, record: CheckpointRecord, location: str) -> None:
        """Require that no other savepoint has used the directory. A slow cleaning identifies files by their names
        alone, so a directory is never reused. Raises `IllegalRequestError`."""
        served = [other for other in tx.written_to(location) if other.checkpoint_id != record.checkpoint_id]
        leaving = any(deletion.owner == saved_at(location) for deletion in tx.pending_deletions(ASKED))
        if served or leaving:
            owner = f"savepoint {served[-1].checkpoint_id}" if served else "a savepoint that was claimed"
            raise IllegalRequestError(
                f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} cannot be "
                f"written to {location}: {owner} has it, and a directory is used only once. Nothing was changed. "
                "Name another directory."
            )

    def _default(self, record: CheckpointRecord) -> str:
        return f"{self._context.storage.url.rstrip('/')}/{default_location(self._pipeline_id, record.checkpoint_id)}"

    def export(self, checkpoint_id: int, exporter: Exporter) -> CheckpointRecord:
        """Write a savepoint after `begin`, once its sinks have committed. Does nothing if it is complete. Raises
        `SavepointExportError`. Repeating it is safe."""
        self._delivery.deliver_pending()
        record = self._found(checkpoint_id)
        if record.exported_at is not None:
            return record
        assert record.location is not None, "`begin` was called"
        try:
            size = self._write(record, record.location, exporter)
        except (StorageError, StateIntegrityError) as error:
            raise self._incomplete(record, error) from error
        with self._context.transaction() as tx:
            exists = tx.mark_exported(checkpoint_id, size, self._context.clock.now())
        if not exists:
            target = self._context.storage.elsewhere(record.location)
            target.delete([MARKER, METADATA, *(path for part in PARTS for path in target.list(part))], PARTS)
        return self._found(checkpoint_id)

    def _write(self, record: CheckpointRecord, location: str, exporter: Exporter) -> int:
        """Write the savepoint's files, and return their size in bytes."""
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        snapshots = {subtask: record.snapshot for subtask, record in known.items()}
        restaged = self._context.graph.restaged
        rewritten = exporter.export(record, location, *plan_export(record.operators, snapshots, restaged))
        written = exported(record.operators, snapshots, restaged, rewritten)
        subtasks = {subtask: replace(known[subtask], snapshot=snapshot) for subtask, snapshot in written.items()}
        # The savepoint's own metadata has the pipeline's sources, sinks and restores at the time when it was taken.
        taken = self._context.storage.read(metadata_path(self._pipeline_id, record.checkpoint_id))
        metadata = replace(
            read_metadata(self._pipeline_id, record.checkpoint_id, taken), record=record, subtasks=subtasks
        )
        return write_documents(
            self._context.graph, self._context.config, self._context.storage.elsewhere(location), metadata
        ).bytes

    def _found(self, checkpoint_id: int) -> CheckpointRecord:
        """Return a savepoint. Raise `CheckpointNotFoundError` if there is none, or it was disposed of."""
        with self._context.transaction() as tx:
            return find_savepoint(self._pipeline_id, str(checkpoint_id), _savepoints(tx))

    def _incomplete(self, record: CheckpointRecord, error: CheckpointError) -> SavepointExportError:
        return SavepointExportError(
            f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} was taken, and can be "
            f"restored natively, but its directory {record.location} is not complete: {error} Repeat the same command "
            "to finish it; no second savepoint is taken."
        )


def _savepoints(tx: StoreTransaction) -> list[CheckpointRecord]:
    return choose_savepoints([*tx.retained(), *tx.abandoned()])
