"""The commit point: the document that makes a checkpoint readable on its own, then the one transaction that completes it.

Commit is three-valued: landed, not landed, unknown. What became of an unknown one is looked up; nothing is deleted.
"""

import json
import logging

from tidegate.config import CheckpointConfig
from tidegate.graph import Graph
from tidegate.guarantees import guarantee_of
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock
from tidegate.protocol.errors import FinalizeError, StorageError, UnknownOutcomeError
from tidegate.protocol.finalize import metadata_document, metadata_path, sizes
from tidegate.protocol.lifecycle import COMMITTED
from tidegate.protocol.records import CheckpointRecord
from tidegate.protocol.restore import choose_obsolete
from tidegate.protocol.retention import choose_subsumed
from tidegate.protocol.validate import ValidatedCheckpoint

log = logging.getLogger("tidegate")


class CommitPoint:
    """Completes validated checkpoints of one pipeline (protocol.md section 6). May be repeated, and by two at once."""

    def __init__(
        self, graph: Graph, config: CheckpointConfig, store: CheckpointStore, storage: CheckpointStorage, clock: Clock
    ) -> None:
        self._graph = graph
        self._pipeline_id = graph.pipeline.name
        self._config = config
        self._store = store
        self._storage = storage
        self._clock = clock

    def reach(self, validated: ValidatedCheckpoint) -> CheckpointRecord:
        """The completed checkpoint. If the connection is lost while it commits, looks what became of it.

        Raises `UnknownOutcomeError` if that cannot be seen, `FinalizeError` if it did not land.
        """
        checkpoint_id = validated.record.checkpoint_id
        if validated.record.status in COMMITTED:
            return validated.record
        path = self._write_metadata(validated.record)
        try:
            record = self._complete(checkpoint_id, path)
        except UnknownOutcomeError:
            log.warning(
                "Checkpoint %s of %s: the outcome of its commit is unknown; looking.", checkpoint_id, self._pipeline_id
            )
            with self._store.transaction(self._pipeline_id) as tx:  # waits for a commit under way: same row lock
                record = tx.checkpoint(checkpoint_id)
        if record is None or record.status not in COMMITTED:
            status = "it is not there" if record is None else record.status
            raise FinalizeError(
                f"The commit of checkpoint {checkpoint_id} of pipeline {self._pipeline_id} did not land ({status}). "
                "The previous checkpoint is still the latest and nothing became visible. Repeat the finalize step."
            )
        return record

    def _write_metadata(self, record: CheckpointRecord) -> str:
        with self._store.transaction(self._pipeline_id) as tx:
            subtasks, verdicts = tx.subtasks(record.checkpoint_id), tx.verdicts(record.checkpoint_id)
        vertices = {v.operator_id: v.source.describe() for v in self._graph.sources}
        pipeline = self._graph.pipeline
        vertices |= {
            v.operator_id: {**v.sink.describe(), "guarantee": guarantee_of(pipeline, v)} for v in self._graph.sinks
        }
        document = metadata_document(record, subtasks, verdicts, vertices, self._config.describe(), self._clock.now())
        path = metadata_path(self._pipeline_id, record.checkpoint_id)
        try:
            self._storage.write(path, json.dumps(document).encode())
        except StorageError as error:
            raise FinalizeError(
                f"The metadata of checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} could not be written: "
                f"{error} The previous checkpoint is still the latest and nothing became visible. Repeat the finalize step."
            ) from error
        return path

    def _complete(self, checkpoint_id: int, path: str) -> CheckpointRecord | None:
        """The transaction. Returns the checkpoint as it is then, whoever completed or aborted it."""
        with self._store.transaction(self._pipeline_id) as tx:
            snapshots = {key: known.snapshot for key, known in tx.subtasks(checkpoint_id).items()}
            state_size, checkpointed_size = sizes(checkpoint_id, list(snapshots.values()))
            if not tx.complete(checkpoint_id, self._clock.now(), path, state_size, checkpointed_size):
                return tx.checkpoint(checkpoint_id)
            if obsolete := choose_obsolete(snapshots, tx.compactions()):
                tx.remove_compactions([compaction.handle.path for compaction in obsolete])
            if subsumed := choose_subsumed(tx.retained(), self._config.retained):
                tx.subsume(subsumed)
            return tx.checkpoint(checkpoint_id)
