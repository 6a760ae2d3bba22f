"""Reads whose the places of a pipeline are, and marks them: the directories of its sinks, and its part of the
checkpoint storage. `protocol.recovery.ownership` decides.

The marks of sinks are read again with each checkpoint: a directory may be moved away while a pipeline runs.
"""

from collections.abc import Mapping, Sequence

from tidegate.coordination.context import DefinedContext
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import (
    NumberedSink,
    OwnedSink,
    RewindableSink,
    Sink,
    StoreTransaction,
)
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError, StorageError
from tidegate.protocol.facts.names import staged_by
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.recovery.ownership import FOREIGN, MARK, Owner, Place, Standing, stand, storage_mark, to_mark

_NOTHING = Branch(())


def is_used(sink: Sink) -> bool:
    """Whether rows or files lie where the sink writes."""
    if isinstance(sink, OwnedSink):
        return sink.is_used()
    numbered = isinstance(sink, NumberedSink) and any(sink.numbers())
    return numbered or (isinstance(sink, RewindableSink) and bool(sink.shown_beside(_NOTHING) or sink.withdrawn()))


class Ownership:
    """The places of one pipeline."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._vertices = context.graph.sinks
        self._endpoints = {each.name: each for each in context.graph.endpoints if each.role is Role.SINK}
        self._is_marked = False  # the checkpoint storage: nobody marks it anew while the pipeline runs

    def find(self, recorded: Sequence[Endpoint]) -> list[Place]:
        """What is where the pipeline would write; `recorded` are the sources and sinks that the database knows. Changes
        nothing. Raises `SinkError`, `StorageError`."""
        places = [self._of_sink(vertex, recorded) for vertex in self._vertices]
        return places if self._is_marked else [*places, self._of_storage()]

    def mark(self, places: Sequence[Place], regains: bool = False) -> list[Place]:
        """Mark what is free as the pipeline's. Returns what another one has marked meanwhile."""
        lost = []
        sinks = {vertex.operator_id: vertex.sink for vertex in self._vertices}
        for place in to_mark(places, regains):
            sink = sinks.get(place.operator_id)
            if sink is not None and not isinstance(sink, OwnedSink):
                continue
            owner = self._mark(place, sink)
            if owner != place.me:
                standing = stand(owner, place.me, self._endpoints)
                lost.append(Place(place.me, place.where, place.operator_id, owner, standing, True, True))
        self._is_marked = True
        return lost

    def _mark(self, place: Place, sink: OwnedSink | None) -> Owner:
        if sink is not None:
            if place.standing is Standing.FREE:
                return sink.mark(place.me)
            sink.mark_anew(place.me)
            return place.me
        path, content = storage_mark(self._pipeline_id), place.me.to_json()
        return self._parsed(path, self._context.storage.mark(path, content, place.standing is not Standing.FREE))

    def take_over(self, places: Sequence[Place]) -> None:
        """Mark as the pipeline's what is another one's, because a person says so."""
        sinks = {vertex.operator_id: vertex.sink for vertex in self._vertices}
        for place in places:
            sink = sinks.get(place.operator_id)
            if isinstance(sink, OwnedSink):
                sink.mark_anew(place.me)
            elif sink is None:
                self._context.storage.mark(storage_mark(self._pipeline_id), place.me.to_json(), anew=True)

    def numbers(self, tx: StoreTransaction) -> tuple[int, int, int]:
        """Ids of checkpoints, attempts of regions and at committing that may not be given out: what lies in places that
        the pipeline takes over may carry them."""
        checkpoint_id, attempt = tx.last_checkpoint_id(), tx.committer().attempt
        for vertex in self._vertices:
            if isinstance(vertex.sink, NumberedSink):
                found = vertex.sink.numbers()
                checkpoint_id, attempt = max(checkpoint_id, found[0]), max(attempt, found[1])
        return checkpoint_id, tx.region().attempt, attempt

    def own_sinks(self) -> Mapping[str, Sink]:
        """By the owner of what they have staged, the sinks in whose directories the pipeline may delete files."""
        return {staged_by(vertex.operator_id): vertex.sink for vertex in self._vertices if not self.is_foreign(vertex)}

    def is_foreign(self, vertex: SinkVertex) -> bool:
        """Whether the sink writes into a directory that is another one's."""
        sink = vertex.sink
        return isinstance(sink, OwnedSink) and stand(sink.owner(), self._me(vertex.name), self._endpoints) in FOREIGN

    def require_own(self, vertex: SinkVertex, checkpoint_id: int) -> None:
        """Before rows are shown or taken out of sight there. Raises `SinkError`."""
        if not self.is_foreign(vertex):
            return
        place = self._of_sink(vertex, ())
        assert place.owner is not None
        raise SinkError(
            f"Checkpoint {checkpoint_id} of pipeline {self._pipeline_id} is complete, and sink {vertex.name!r} shows "
            f"nothing of it: {place.where} belongs to pipeline {place.owner.pipeline} (its file {MARK}: sink "
            f"{place.owner.sink!r}, database {place.owner.database}). What readers see there was not changed, and the "
            "rows stay staged. If that pipeline will never write there again, `tidegate relocate "
            f"{self._pipeline_id} --take-over` makes the directory this pipeline's; then repeat the notify step."
        )

    def _me(self, sink: str = "") -> Owner:
        return Owner(self._pipeline_id, sink, self._context.store.identity())

    def _of_sink(self, vertex: SinkVertex, recorded: Sequence[Endpoint]) -> Place:
        me, sink, mine = self._me(vertex.name), vertex.sink, self._endpoints[vertex.name]
        owner = sink.owner() if isinstance(sink, OwnedSink) else None
        standing = stand(owner, me, self._endpoints)
        is_recorded = any((each.role, each.type, each.place) == (Role.SINK, mine.type, mine.place) for each in recorded)
        used = standing is Standing.FREE and not is_recorded and is_used(sink)
        return Place(me, mine.place or mine.type, vertex.operator_id, owner, standing, is_recorded, used)

    def _of_storage(self) -> Place:
        me, path = self._me(), storage_mark(self._pipeline_id)
        content = self._context.storage.marked(path)
        owner = None if content is None else self._parsed(path, content)
        return Place(me, self._context.storage.url, "", owner, stand(owner, me, self._endpoints), True, False)

    def _parsed(self, path: str, content: bytes) -> Owner:
        try:
            return Owner.parse(content)
        except ValueError as error:
            raise StorageError(
                f"{path} on the checkpoint storage {self._context.storage.url} is damaged: it does not say which "
                f"database pipeline {self._pipeline_id} belongs to. Nothing was changed. If only this database is "
                "used with that storage, delete that file, then repeat: it is made anew."
            ) from error
