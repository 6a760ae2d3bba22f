"""Read and write the ownership marks of a pipeline's places: its sinks' directories, and its part of the checkpoint
storage. `protocol.recovery.ownership` decides.

The marks of sinks are read again with each checkpoint, because a directory may be moved while a pipeline runs.
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
from tidegate.protocol.recovery.ownership import FOREIGN, Owner, Place, Standing, stand, storage_mark, to_mark

_NOTHING = Branch(())


def is_used(sink: Sink) -> bool:
    """Whether the sink's place has rows or files."""
    if isinstance(sink, OwnedSink):
        return sink.is_used()
    numbered = isinstance(sink, NumberedSink) and any(sink.numbers())
    return numbered or (isinstance(sink, RewindableSink) and bool(sink.shown_outside(_NOTHING) or sink.withdrawn()))


class Ownership:
    """The places of one pipeline."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._vertices = context.graph.sinks
        self._endpoints = {end.name: end for end in context.graph.endpoints if end.role is Role.SINK}
        self._is_marked = False  # of the checkpoint storage, whose mark does not change while the pipeline runs

    def find(self, recorded: Sequence[Endpoint]) -> list[Place]:
        """Return the places that the pipeline would write to. `recorded` are the sources and sinks in the database.
        Changes nothing. Raises `SinkError`, `StorageError`."""
        places = [self._of_sink(vertex, recorded) for vertex in self._vertices]
        return places if self._is_marked else [*places, self._of_storage()]

    def mark(self, places: Sequence[Place], regains: bool = False) -> list[Place]:
        """Mark free places as the pipeline's. Return the places that another pipeline has marked meanwhile."""
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
        """Mark places of another pipeline as this one's, as the user requested."""
        sinks = {vertex.operator_id: vertex.sink for vertex in self._vertices}
        for place in places:
            sink = sinks.get(place.operator_id)
            if isinstance(sink, OwnedSink):
                sink.mark_anew(place.me)
            elif sink is None:
                self._context.storage.mark(storage_mark(self._pipeline_id), place.me.to_json(), anew=True)

    def numbers(self, tx: StoreTransaction) -> tuple[int, int, int]:
        """Return the highest checkpoint id, region attempt and commit attempt that must not be given out again: files
        in places that the pipeline takes over may carry them."""
        checkpoint_id, attempt = tx.last_checkpoint_id(), tx.committer().attempt
        for vertex in self._vertices:
            if isinstance(vertex.sink, NumberedSink):
                numbers = vertex.sink.numbers()
                checkpoint_id, attempt = max(checkpoint_id, numbers[0]), max(attempt, numbers[1])
        return checkpoint_id, tx.region().attempt, attempt

    def own_sinks(self) -> Mapping[str, Sink]:
        """Return the sinks in whose directories the pipeline may delete files, by the owner of their staged files."""
        return {staged_by(vertex.operator_id): vertex.sink for vertex in self._vertices if not self.is_foreign(vertex)}

    def is_foreign(self, vertex: SinkVertex) -> bool:
        """Whether the sink writes to a directory that belongs to another pipeline."""
        sink = vertex.sink
        return isinstance(sink, OwnedSink) and stand(sink.owner(), self._me(vertex.name), self._endpoints) in FOREIGN

    def require_own(self, vertex: SinkVertex, checkpoint_id: int) -> None:
        """Require that the sink's place is the pipeline's own, before rows are shown or hidden there. Raises
        `SinkError`."""
        if not self.is_foreign(vertex):
            return
        place = self._of_sink(vertex, ())
        assert place.owner is not None
        raise SinkError(
            f"Checkpoint {checkpoint_id} of pipeline {self._pipeline_id} is complete, and sink {vertex.name!r} shows "
            f"nothing of it: {place.where} belongs to pipeline {place.owner.pipeline} (the owner's mark there: sink "
            f"{place.owner.sink!r}, database {place.owner.database}). Readers still see the same rows there, and "
            "the checkpoint's rows stay staged. If that pipeline will never write there again, `tidegate relocate "
            f"{self._pipeline_id} --take-over` makes it this pipeline's; then repeat the notify step."
        )

    def _me(self, sink: str = "") -> Owner:
        return Owner(self._pipeline_id, sink, self._context.store.identity())

    def _of_sink(self, vertex: SinkVertex, recorded: Sequence[Endpoint]) -> Place:
        me, sink, endpoint = self._me(vertex.name), vertex.sink, self._endpoints[vertex.name]
        owner = sink.owner() if isinstance(sink, OwnedSink) else None
        standing = stand(owner, me, self._endpoints)
        is_recorded = any(
            (known.role, known.type, known.place) == (Role.SINK, endpoint.type, endpoint.place) for known in recorded
        )
        used = standing is Standing.FREE and not is_recorded and is_used(sink)
        return Place(me, endpoint.place or endpoint.type, vertex.operator_id, owner, standing, is_recorded, used)

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
                f"{path} on the checkpoint storage {self._context.storage.url} is damaged: it does not name the "
                f"database of pipeline {self._pipeline_id}. Nothing was changed. If only this database is "
                "used with that storage, delete that file, then repeat: it is written again."
            ) from error
