"""Takes corrected files on purpose: back to the newest checkpoint that had not read them, and they are read as new.

There is no other exact way. The rows that a file had are in state and tables, mixed with others; only a restore takes
them out again.
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
    """What was read of the files, and the restore that leads to before that. The files are not missing for it."""

    source: str
    pieces: tuple[ReadPiece, ...]
    restore: RestorePlan

    @property
    def target(self) -> ToCheckpoint:
        return ToCheckpoint(self.restore.checkpoint.checkpoint_id)


class Replacing:
    """Of one pipeline. Planning changes nothing; the plan is carried out as a restore."""

    def __init__(self, context: DefinedContext, restoring: Restoring) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._restoring = restoring

    def plan(self, source: str, files: Sequence[str]) -> Replacement:
        """Raises `ConfigurationError` for a source that is not there or reads no files, `RestoreRefusedError` if a file
        was not read, is gone or unchanged, or no checkpoint from before it is kept, and as `Restoring.plan` does."""
        vertex, connector = self._source(source)
        names = list(dict.fromkeys(map(connector.name_of, files)))
        while True:
            kept = self._kept()
            try:
                planned = self._plan_from(kept, vertex, connector, names)
            except StateIntegrityError:  # unless somebody restored meanwhile, and what was left behind is deleted
                if self._kept() == kept:
                    raise
                continue
            if planned.restore.previous == kept[0]:  # else what has read the files is another matter now
                return planned

    def _kept(self) -> list[CheckpointRecord]:
        """What there is to go back to, the newest first."""
        with self._context.transaction() as tx:
            kept = [record for record in tx.retained() if record.abandoned_by is None]
        return sorted(kept, key=lambda record: record.checkpoint_id, reverse=True)

    def _plan_from(
        self, kept: Sequence[CheckpointRecord], vertex: SourceVertex, connector: ReplaceableSource, names: Sequence[str]
    ) -> Replacement:
        found = self._read(vertex, connector, names, kept[0]) if kept else {}
        self._require_changed(vertex.name, names, found)
        pieces = tuple(found[name] for name in names)
        for record in kept[1:]:
            if not self._read(vertex, connector, names, record):
                return Replacement(vertex.name, pieces, self._plan(vertex, names, record))
        raise RestoreRefusedError(self._no_way_back(vertex.name, pieces, kept[-1]))

    def _source(self, name: str) -> tuple[SourceVertex, ReplaceableSource]:
        for vertex in self._context.graph.sources:
            if vertex.name == name and isinstance(vertex.source, ReplaceableSource):
                return vertex, vertex.source
        there = (
            ", ".join(v.name for v in self._context.graph.sources if isinstance(v.source, ReplaceableSource)) or "none"
        )
        raise ConfigurationError(
            f"Pipeline {self._pipeline_id} has no source {name!r} that reads files. Those that do: {there}. Nothing "
            "was changed."
        )

    def _read(
        self, vertex: SourceVertex, connector: ReplaceableSource, names: Sequence[str], record: CheckpointRecord
    ) -> Mapping[str, ReadPiece]:
        owners = {vertex.operator_id, vertex.previous.name}
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        taken: list[Snapshot] = [each.snapshot for key, each in known.items() if key.operator_id in owners]
        return connector.find_read(names, taken, self._context.storage)

    def _require_changed(self, source: str, names: Sequence[str], found: Mapping[str, ReadPiece]) -> None:
        where = f"source {source} of pipeline {self._pipeline_id}"
        for name in names:
            piece = found.get(name)
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

    def _no_way_back(self, source: str, pieces: Sequence[ReadPiece], oldest: CheckpointRecord) -> str:
        read = ", ".join(f"{piece.name} by checkpoint {piece.checkpoint_id}" for piece in pieces)
        return (
            f"No checkpoint or savepoint of pipeline {self._pipeline_id} is kept from before source {source} read "
            f"{read}: the oldest is {oldest.checkpoint_id}. Nothing was changed. State and tables hold the rows as "
            "they were read. Put the file back as it was, and deliver what is to be corrected as a file with another "
            "name. To have a way back next time, keep more checkpoints (CheckpointConfig.retained) or take savepoints."
        )

    def _plan(self, vertex: SourceVertex, names: Sequence[str], record: CheckpointRecord) -> RestorePlan:
        plan = self._restoring.plan(ToCheckpoint(record.checkpoint_id))
        sources = tuple(
            replace(each, missing=tuple(name for name in each.missing if name not in names))
            if each.source == vertex.name
            else each
            for each in plan.sources
        )
        return replace(plan, sources=sources)
