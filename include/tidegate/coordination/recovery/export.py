"""Writes a savepoint to a directory of its own, complete and relocatable.

The savepoint was taken before, as any other. Each step from there on may be repeated and writes the same; the marker in
the directory comes last. Whoever finds a savepoint that is not exported yet finishes it.
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
    """Exports the savepoints of one pipeline."""

    def __init__(self, context: DefinedContext, delivery: Delivery) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._delivery = delivery
        self._auditing = Auditing(context)

    def require_possible(self, location: str | None) -> None:
        """To be called before a savepoint is taken for it. Raises `ConfigurationError` for a sink whose files cannot be
        taken along, or a directory that holds something else, and `StorageError`."""
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
        found = self._context.storage.elsewhere(location).list("")
        if found and not self._serves(location):  # or somebody has begun since, with the same request
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {location}: there is something "
                f"already ({found[0]}). Nothing was changed. Name a directory that is empty, or not there yet."
            )

    def _serves(self, location: str) -> bool:
        """Whether a savepoint is written there, perhaps by the same request: see `begin`. Raises `ConfigurationError`
        if one was."""
        with self._context.transaction() as tx:
            served = tx.written_to(location)
        if served and not any(record.status is Status.COMPLETED for record in served):
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {location}: savepoint "
                f"{served[-1].checkpoint_id} lay there and was disposed of, and a directory serves once. Nothing was "
                "changed. Name another directory."
            )
        return bool(served)

    def begin(self, wanted: str, location: str | None = None, action: UserAction | None = None) -> CheckpointRecord:
        """Say where the savepoint of this name or number is written; by default beside the pipeline's checkpoints.

        Repeating it is safe. Raises `CheckpointNotFoundError`, `IllegalRequestError` if it was written elsewhere, and
        as `require_possible`.
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
            said = f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} is written to"
            entry.done(tx, self._context.clock.now(), f"{said} {where}.", record.checkpoint_id)
            return record.moved(location=where)

    def _require_unused(self, tx: StoreTransaction, record: CheckpointRecord, location: str) -> None:
        """Who cleans up may be slow, and knows files by their names alone: what a savepoint had is never another one's.
        Raises `IllegalRequestError`."""
        served = [other for other in tx.written_to(location) if other.checkpoint_id != record.checkpoint_id]
        leaving = any(deletion.owner == saved_at(location) for deletion in tx.pending_deletions(ASKED))
        if served or leaving:
            whose = f"savepoint {served[-1].checkpoint_id}" if served else "a savepoint that was claimed"
            raise IllegalRequestError(
                f"Savepoint {record.name or record.checkpoint_id} of pipeline {self._pipeline_id} cannot be written to "
                f"{location}: {whose} has it, and a directory serves once. Nothing was changed. Name another directory."
            )

    def _default(self, record: CheckpointRecord) -> str:
        return f"{self._context.storage.url.rstrip('/')}/{default_location(self._pipeline_id, record.checkpoint_id)}"

    def export(self, checkpoint_id: int, exporter: Exporter) -> CheckpointRecord:
        """Write a savepoint that was begun, once its sinks have committed; does nothing if it is complete. Raises
        `SavepointExportError`; repeating it is safe."""
        self._delivery.deliver_pending()
        record = self._found(checkpoint_id)
        if record.exported_at is not None:
            return record
        assert record.location is not None, "begun"
        try:
            size = self._write(record, record.location, exporter)
        except (StorageError, StateIntegrityError) as error:
            raise self._incomplete(record, error) from error
        with self._context.transaction() as tx:
            is_there = tx.mark_exported(checkpoint_id, size, self._context.clock.now())
        if not is_there:
            target = self._context.storage.elsewhere(record.location)
            target.delete([MARKER, METADATA, *(path for part in PARTS for path in target.list(part))], PARTS)
        return self._found(checkpoint_id)

    def _write(self, record: CheckpointRecord, location: str, exporter: Exporter) -> int:
        """Returns the bytes of its files."""
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        snapshots = {subtask: each.snapshot for subtask, each in known.items()}
        restaged = self._context.graph.restaged
        rewritten = exporter.export(record, location, *plan_export(record.operators, snapshots, restaged))
        written = exported(record.operators, snapshots, restaged, rewritten)
        subtasks = {subtask: replace(known[subtask], snapshot=snapshot) for subtask, snapshot in written.items()}
        # As when it was taken: what the pipeline's sources, sinks and restores were is in the savepoint's metadata.
        taken = self._context.storage.read(metadata_path(self._pipeline_id, record.checkpoint_id))
        metadata = replace(
            read_metadata(self._pipeline_id, record.checkpoint_id, taken), record=record, subtasks=subtasks
        )
        return write_documents(
            self._context.graph, self._context.config, self._context.storage.elsewhere(location), metadata
        ).bytes

    def _found(self, checkpoint_id: int) -> CheckpointRecord:
        """Raises `CheckpointNotFoundError` if it is no savepoint, or was disposed of."""
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
