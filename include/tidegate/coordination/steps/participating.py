"""The parts of sinks in the commit in a transaction: prepared before it begins, run within it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.ownership import Ownership
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CommittingSink, JournalingSink, Participant, SinkCommit
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.records import SubtaskId, SubtaskRecord
from tidegate.protocol.steps.finished import choose_notified
from tidegate.protocol.steps.notify import committables

Subtasks = Mapping[SubtaskId, SubtaskRecord]


@dataclass(frozen=True, slots=True)
class Participating:
    """Participants, and the operator ids of their sinks."""

    operator_ids: tuple[str, ...] = ()
    participants: Sequence[Participant] = ()


@dataclass(frozen=True, slots=True)
class _Committing:
    vertex: SinkVertex
    sink: CommittingSink


def keeping_sinks(graph: Graph) -> set[str]:
    """Return the operator ids of the sinks that receive each checkpoint, even after their input has ended, because a
    restore reads from them the rows that they showed."""
    return {vertex.operator_id for vertex in graph.sinks if isinstance(vertex.sink, JournalingSink)}


class Participants:
    """The participants of one pipeline, always in the same order, so that two processes cannot deadlock."""

    def __init__(self, context: DefinedContext, ownership: Ownership) -> None:
        self._ownership = ownership
        self._sinks = {
            vertex.operator_id: _Committing(vertex, vertex.sink)
            for vertex in context.graph.sinks
            if vertex.sink.commits is SinkCommit.IN_THE_COMMIT and isinstance(vertex.sink, CommittingSink)
        }
        self._keeping = keeping_sinks(context.graph)

    def prepare(self, checkpoint_id: int, subtasks: Subtasks) -> Participating:
        """Prepare the participants that show a checkpoint's rows. Raises the errors of sinks, and `SinkError` for a
        place that is another pipeline's."""
        notified = [id_ for id_ in self._sinks if id_ in choose_notified(subtasks, self._keeping)]
        for operator_id in notified:
            self._ownership.require_own(self._sinks[operator_id].vertex, checkpoint_id)
        prepared = [self._sinks[id_].sink.prepare(checkpoint_id, committables(subtasks, id_)) for id_ in notified]
        return Participating(tuple(notified), prepared)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, subtasks: Subtasks) -> Participating:
        """Prepare the participants that show exactly the committed rows of a branch. Raises as `prepare`."""
        for committing in self._sinks.values():
            self._ownership.require_own(committing.vertex, checkpoint_id)
        prepared = [
            committing.sink.prepare_rewind(checkpoint_id, branch, committables(subtasks, id_))
            for id_, committing in self._sinks.items()
        ]
        return Participating(tuple(self._sinks), prepared)
