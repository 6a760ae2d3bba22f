"""Planted mistakes in continuous runs that read topics with another number of splits than the run before."""

from mutations.planting import mutation
from tidegate.dataflow.polled_sources import PolledSources
from tidegate.protocol.facts.records import Snapshot


@mutation("a run with fewer splits takes a checkpoint before it has polled them", (PolledSources, "settle"))
def _(original):
    return lambda self, checkpoint_id, at_a_time: None


@mutation("a run does not know how far splits have read that are gone", (PolledSources, "_before"))
def _(original):
    def before(self, source):
        return {subtask: self._state.snapshots.get(subtask, Snapshot()) for subtask in source.subtasks()}

    return before
