"""Planted mistakes around sinks that have what an operator's state has."""

from dataclasses import replace

from simulator import lasting

from mutations.planting import mutation
from tidegate.coordination.steps import lookup
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.running import RunningChain
from tidegate.protocol.steps.sink_marks import DELETES


@mutation("a key that is removed is not sent to a sink of upserts", (lasting, "upserts"))
def _(original):
    return lambda before, after, base: [each for each in original(before, after, base) if DELETES not in each[1]]


@mutation("a topic of upserts that is given all rows is not told which keys are gone", (ExecutionPlan, "base"))
def _(original):
    return lambda self, sink, vertex: {}


@mutation("a topic of upserts that is given all rows is not told which keys have expired", (ExecutionPlan, "base"))
def _(original):
    def base(self, sink, vertex):
        horizon = self.horizon(vertex)[0]
        return {index: replace(each, horizon=horizon) for index, each in original(self, sink, vertex).items()}

    return base


@mutation("a key that has expired is not sent to a sink of upserts", (ExecutionPlan, "had"))
def _(original):
    def had(self, sink, vertex):
        horizon = self.horizon(vertex)[0]
        return {index: replace(each, horizon=horizon) for index, each in original(self, sink, vertex).items()}

    return had


@mutation("a sink of upserts that lacks rows is given those that change", (ExecutionPlan, "_to_upsert"))
def _(original):
    return lambda self, sink, vertex: original(self, sink, vertex) if self.had(sink, vertex) else []


@mutation("a sink of upserts has what it had at a checkpoint that it was not taken back to", (lookup, "known_marks"))
def _(original):
    return lambda snapshots, latest_id, shown, is_restored: dict(snapshots)


@mutation("a sink of upserts has what a checkpoint that is in progress has", (RunningChain, "before"))
def _(original):
    return lambda self, checkpoint_id: self.shown


@mutation("a sink of upserts has what its operator has, whatever has completed", (RunningChain, "before"))
def _(original):
    return lambda self, checkpoint_id: None


@mutation("a topic of upserts is not kept waiting for older checkpoints", (RunningChain, "depends_on_older"))
def _(original):
    return lambda self, checkpoint_id: False


@mutation("a snapshot that has waited uses what its sinks had at its barrier", (RunningChain, "renew"))
def _(original):
    return lambda self, checkpoint_id, present: None


@mutation("a snapshot that has waited keeps rows that have changed", (RunningChain, "_tables"))
def _(original):
    return lambda self, snapshots, epochs: original(self, snapshots, [])
