"""Read corrected files: restore the newest checkpoint that had not read them, after which they are read as new.

There is no other exact way. The rows of a file are in state and tables, mixed with others. Only a restore removes
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.recovery.restore import Restoring, ToCheckpoint
from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import ReadPiece, ReplaceableSource
from tidegate.protocol.facts.errors import ConfigurationError, RestoreRefusedError, StateIntegrityError
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot
from tidegate.protocol.recovery.restore_plan import RestorePlan


@dataclass(frozen=True, slots=True)
class Replacement:
    """The files that were read, and the restore to a checkpoint before that. Its plan does not list the files as
    missing."""

    source: str
    pieces: tuple[ReadPiece, ...]
    restore: RestorePlan

    @property
    def target(self) -> ToCheckpoint:
        return ToCheckpoint(self.restore.checkpoint.checkpoint_id)


class Replacing:
    """Plan replacements for one pipeline. Planning changes nothing. The plan is carried out as a restore."""

    def __init__(self, context: DefinedContext, restoring: Restoring) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._restoring = restoring

    def plan(self, source: str, files: Sequence[str]) -> Replacement:
        """Plan a replacement. Raises `ConfigurationError` for a source that does not exist or reads no files,
        `RestoreRefusedError` if a file was not read, is gone or unchanged, or no earlier checkpoint is retained, and
        as `Restoring.plan` does."""
        vertex, connector = self._source(source)
        names = list(dict.fromkeys(map(connector.name_of, files)))
        while True:
            kept = self._kept()
            try:
                planned = self._plan_from(kept, vertex, connector, names)
            except (
                StateIntegrityError
            ):  # unless the pipeline was restored meanwhile, and abandoned checkpoints were deleted
                if self._kept() == kept:
                    raise
                continue
            if planned.restore.previous == kept[0]:  # else other checkpoints have read the files
                return planned

    def _kept(self) -> list[CheckpointRecord]:
        """Return the checkpoints that can be restored, the newest first."""
        with self._context.transaction() as tx:
            kept = [record for record in tx.retained() if record.abandoned_by is None]
        return sorted(kept, key=lambda record: record.checkpoint_id, reverse=True)

    def _plan_from(
        self, kept: Sequence[CheckpointRecord], vertex: SourceVertex, connector: ReplaceableSource, names: Sequence[str]
    ) -> Replacement:
        read = self._read(vertex, connector, names, kept[0]) if kept else {}
        self._require_changed(vertex.name, names, read)
        pieces = tuple(read[name] for name in names)
        for record in kept[1:]:
            if not self._read(vertex, connector, names, record):
                return Replacement(vertex.name, pieces, self._plan(vertex, names, record))
        raise RestoreRefusedError(self._no_earlier_checkpoint(vertex.name, pieces, kept[-1]))

    def _source(self, name: str) -> tuple[SourceVertex, ReplaceableSource]:
        for vertex in self._context.graph.sources:
            if vertex.name == name and isinstance(vertex.source, ReplaceableSource):
                return vertex, vertex.source
        file_sources = (
            ", ".join(v.name for v in self._context.graph.sources if isinstance(v.source, ReplaceableSource)) or "none"
        )
        raise ConfigurationError(
            f"Pipeline {self._pipeline_id} has no source {name!r} that reads files. Those that do: {file_sources}. "
            "Nothing was changed."
        )

    def _read(
        self, vertex: SourceVertex, connector: ReplaceableSource, names: Sequence[str], record: CheckpointRecord
    ) -> Mapping[str, ReadPiece]:
        owners = {vertex.operator_id, vertex.previous.name}
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        taken: list[Snapshot] = [each.snapshot for key, each in known.items() if key.operator_id in owners]
        return connector.find_read(names, taken, self._context.storage)

    def _require_changed(self, source: str, names: Sequence[str], read: Mapping[str, ReadPiece]) -> None:
        where = f"source {source} of pipeline {self._pipeline_id}"
        for name in names:
            piece = read.get(name)
            if piece is None:
                raise RestoreRefusedError(
                    f"{name} was not read by {where}, as far as its latest completed checkpoint goes: the next "
                    "checkpoint reads it as it is, if it is there. Nothing was changed."
                )
            if piece.now is None:
                raise RestoreRefusedError(
                    f"{name} is gone, which checkpoint {piece.checkpoint_id} of pipeline {self._pipeline_id} has read "
                    f"from source {source}. Nothing was changed. Put the corrected file there first, then repeat this."
                )
            if piece.is_same:
                raise RestoreRefusedError(
                    f"{name} is as checkpoint {piece.checkpoint_id} of pipeline {self._pipeline_id} has read it from "
                    f"source {source}. Nothing was changed. Put the corrected file there first, then repeat this."
                )

    def _no_earlier_checkpoint(self, source: str, pieces: Sequence[ReadPiece], oldest: CheckpointRecord) -> str:
        read = ", ".join(f"{piece.name} by checkpoint {piece.checkpoint_id}" for piece in pieces)
        return (
            f"No checkpoint or savepoint of pipeline {self._pipeline_id} is kept from before source {source} read "
            f"{read}: the oldest is {oldest.checkpoint_id}. Nothing was changed. State and tables hold the rows as "
            "they were read. Put the file back as it was, and deliver the corrections as a file with another name. "
            "To be able to restore next time, keep more checkpoints (CheckpointConfig.retained) or take savepoints."
        )

    def _plan(self, vertex: SourceVertex, names: Sequence[str], record: CheckpointRecord) -> RestorePlan:
        plan = self._restoring.plan(ToCheckpoint(record.checkpoint_id))
        sources = tuple(
            replace(restored, missing=tuple(name for name in restored.missing if name not in names))
            if restored.source == vertex.name
            else restored
            for restored in plan.sources
        )
        return replace(plan, sources=sources)
