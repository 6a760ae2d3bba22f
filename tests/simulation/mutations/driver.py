"""Planted mistakes in what both drivers stand on, and in the scheduled one."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.dataflow import scheduled_driver, subtask_snapshots
from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.driver_base import DriverBase
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.protocol.facts.records import HandleKind


@mutation("an operator begins with nothing", (ExecutionPlan, "runs"))
def _(original):
    return lambda self, vertex, index: ()


@mutation("an operator forgets the runs that it does not write itself", (subtask_snapshots, "_handles"))
def _(original):
    def handles(plan, execution, subtask):
        found = original(plan, execution, subtask)
        written = [handle for handle in found if handle.created_by == plan.checkpoint_id]
        return tuple(written or found)

    return handles


@mutation("a table that lacks its rows does not get them", (ExecutionPlan, "to_restage"))
def _(original):
    return lambda self, execution, sink: []


@mutation("downstream does not get what an earlier attempt acknowledged", (scheduled_driver, "exchange_of"))
def _(original):
    return lambda execution, acknowledged, parallelism: original(execution, {}, parallelism)


@mutation("downstream gets the barrier and no rows", (scheduled_driver, "exchange_of"))
def _(original):
    return lambda execution, acknowledged, parallelism: replace(original(execution, {}, 0), handles=())


@mutation("the barrier goes before the data of its source", (ScheduledDriver, "_feed_sources"))
def _(original):
    def feed(self, sources):
        original(self, replace(sources, segments=dict.fromkeys(sources.segments)))
        names = {vertex.operator_id: vertex.name for vertex in self._graph.sources}
        for subtask, segment in sources.segments.items():
            if segment is not None:
                self._base.channels.feed(ChannelName(names[subtask.operator_id], subtask.subtask_index), segment)

    return feed


@mutation("what has finished goes on sending barriers", (DriverBase, "close"))
def _(original):
    return lambda self, finished: None


@mutation("an operator that has finished is taken for one that runs", (DriverBase, "finished_operators"))
def _(original):
    return lambda self: frozenset()


@mutation("an operator finishes with its first snapshot", (Execution, "is_last"))
def _(original):
    return property(lambda self: True)


@mutation("an operator never finishes", (Execution, "is_last"))
def _(original):
    return property(lambda self: False)


@mutation("the last acknowledgements are not sent", (ScheduledDriver, "_send"))
def _(original):
    def send(self):
        if self._running:
            original(self)

    return send


@mutation(
    "a subtask that wrote nothing acknowledges nothing",
    (subtask_snapshots, "acknowledgements"),
    (scheduled_driver, "acknowledgements"),
)
def _(original):
    def acknowledgements(plan, execution, indexes, start_delay):
        wrote = {report.subtask_index for report in execution.reports.values()}
        return original(plan, execution, [index for index in indexes if index in wrote], start_delay)

    return acknowledgements


@mutation("the newest run is not carried over", (ExecutionPlan, "carried"))
def _(original):
    def carried(self, subtask, kind):
        found = original(self, subtask, kind)
        return found[:-1] if kind is HandleKind.RUN and len(found) > 1 else found

    return carried
