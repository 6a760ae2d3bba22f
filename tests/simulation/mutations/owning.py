"""Planted mistakes about whose a directory is."""

from mutations.planting import mutation
from tidegate.coordination.steps import identity
from tidegate.coordination.steps import ownership as places
from tidegate.coordination.steps.ownership import Ownership
from tidegate.protocol.facts.names import staged_by
from tidegate.protocol.recovery.ownership import Standing


@mutation("the mark of another pipeline counts for nothing", (places, "stand"))
def _(original):
    def stand(owner, me, sinks):
        return Standing.FREE if owner is None else Standing.OWN

    return stand


@mutation("a pipeline of the same database is no stranger", (places, "stand"))
def _(original):
    def stand(owner, me, sinks):
        found = original(owner, me, sinks)
        return Standing.OWN if owner is not None and owner.database == me.database else found

    return stand


@mutation("a pipeline cleans in directories that are another one's", (Ownership, "own_sinks"))
def _(original):
    return lambda self: {staged_by(vertex.operator_id): vertex.sink for vertex in self._vertices}


@mutation("a pipeline begins where tables already are", (places, "is_used"))
def _(original):
    return lambda sink: False


@mutation("a place that is another one's is refused only where that is planned", (identity, "refused_places"))
def _(original):
    return lambda places, regains=False: []
