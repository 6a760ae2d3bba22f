"""Commit and rewind sinks after the commit, one after the other. The sinks of a group change together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import (
    Branch,
    CommitAttempt,
    GroupedSink,
    RewindableGroupedSink,
    RewindableSink,
    StateHandle,
)


@dataclass(frozen=True, slots=True)
class SinkGroup:
    """Sinks that change together, and the handles that a checkpoint staged for each."""

    vertices: Sequence[SinkVertex]
    staged: Sequence[Sequence[StateHandle]]

    def commit(self, checkpoint_id: int, attempt: CommitAttempt) -> None:
        """See `ports.Sink`."""
        first = self.vertices[0].sink
        if len(self.vertices) > 1 and isinstance(first, GroupedSink):
            first.commit_group(checkpoint_id, self._members(), attempt)
        else:
            first.commit(checkpoint_id, self.staged[0], attempt)

    def rewind(self, checkpoint_id: int, branch: Branch, attempt: CommitAttempt) -> None:
        """See `ports.RewindableSink`. The caller has checked that all sinks are."""
        first = self.vertices[0].sink
        if len(self.vertices) > 1 and isinstance(first, RewindableGroupedSink):
            first.rewind_group(checkpoint_id, branch, self._members(), attempt)
        elif isinstance(first, RewindableSink):
            first.rewind(checkpoint_id, branch, self.staged[0], attempt)

    def _members(self) -> list[tuple[object, Sequence[StateHandle]]]:
        return [(vertex.sink, staged) for vertex, staged in zip(self.vertices, self.staged, strict=True)]


def in_groups(sinks: Iterable[tuple[SinkVertex, Sequence[StateHandle]]]) -> list[SinkGroup]:
    """Group sinks in their order. A group has the place of its first sink. A sink without a group is a group of its
    own."""
    groups: dict[tuple[str | None, str], list[tuple[SinkVertex, Sequence[StateHandle]]]] = {}
    for vertex, staged in sinks:
        group = vertex.sink.group if isinstance(vertex.sink, GroupedSink) else None
        groups.setdefault((group, "" if group else vertex.operator_id), []).append((vertex, staged))
    return [
        SinkGroup([vertex for vertex, _ in members], [staged for _, staged in members]) for members in groups.values()
    ]
