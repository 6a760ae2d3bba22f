"""Planted mistakes in how a pipeline runs continuously."""

from dataclasses import replace

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.coordination.steps import region_lease as control
from tidegate.coordination.steps.region_lease import RegionControl
from tidegate.dataflow import in_flight, snapshot_steps
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.driver_base import DriverBase
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.polled_sources import PolledSources
from tidegate.dataflow.running import Epoch, RunningChain
from tidegate.dataflow.snapshot_steps import SnapshotSteps
from tidegate.protocol.facts.records import HandleKind


@mutation("a sink forgets what it held for a checkpoint that is aborted", (RunningChain, "aborted"))
def _(original):
    def aborted(self, checkpoint_id):
        if checkpoint_id in self.epochs:
            self.epochs[checkpoint_id].held = {}
        original(self, checkpoint_id)

    return aborted


@mutation("a sink shows again what a completed checkpoint has shown", (RunningChain, "completed"))
def _(original):
    def completed(self, checkpoint_id):
        shown = [epoch.held for id_, epoch in self.epochs.items() if id_ <= checkpoint_id]
        original(self, checkpoint_id)
        for held in reversed(shown):
            self.now.follow(Epoch(held))

    return completed


@mutation("a table is not staged again after a checkpoint that is aborted", (RunningChain, "aborted"))
def _(original):
    def aborted(self, checkpoint_id):
        if checkpoint_id in self.epochs:
            self.epochs[checkpoint_id].stale = set()
        original(self, checkpoint_id)

    return aborted


@mutation("what comes behind the barrier is part of the snapshot", (RunningChain, "completed"))
def _(original):
    def completed(self, checkpoint_id):
        self.now.held = {}
        original(self, checkpoint_id)

    return completed


@mutation("an abort counts as the completion of what it aborts", (SnapshotSteps, "_carry_out"))
def _(original):
    def carry_out(self, vertex, effect):
        if type(effect).__name__ == "ForwardComplete":
            self._notify_complete(vertex, max(self._tasks))
            return []
        return original(self, vertex, effect)

    return carry_out


@mutation("data that was in flight is not put back", (DriverBase, "put_back"))
def _(original):
    return lambda self, restored: None


@mutation("data that was in flight is not recorded", (in_flight, "_to_json"), (in_flight, "_from_json"))
def _(original):
    return lambda data: (
        {"split": 0, "reference": {"first": 0, "end": 0}, "bytes": 0}
        if not isinstance(data, dict)
        else original({"split": 0, "reference": {"source": "log0", "first": 0, "end": 0}, "bytes": 0})
    )


@mutation("files in flight are as short-lived as any exchange", (snapshot_steps, "with_in_flight"))
def _(original):
    def record(snapshot, channels, captured):
        result = original(snapshot, channels, captured)
        kept = tuple(
            replace(h, kind=HandleKind.EXCHANGE) if h.kind is HandleKind.CHANNEL else h for h in result.handles
        )
        return replace(result, handles=kept)

    return record


@mutation("files of an aborted checkpoint go although the region uses them", (MemoryTransaction, "pending_deletions"))
def _(original):
    def pending(self, limit):
        live = {file for _, _, file in self.state.live()}
        return [deletion for deletion in self.state.deletions if deletion not in live][:limit]

    return pending


@mutation("a region that was overtaken begins snapshots", (control, "is_current"))
def _(original):
    return lambda region, attempt: True


@mutation("a new region leaves in progress what the old one began", (RegionControl, "_abort"))
def _(original):
    return lambda self, tx, record, what: None


@mutation("the position is that of the next poll", (PolledSources, "positions"))
def _(original):
    def positions(self, source, task, now):
        self.poll(task.checkpoint_id, lambda _: 1)
        return original(self, source, task, now)

    return positions


@mutation("who is asked directly loses what was put back", (ContinuousDriver, "_ask_directly"))
def _(original):
    def ask(self, task, options):
        for running in self._chains:
            upstreams = set(self._graph.upstreams[running.vertex.operator_id])
            if running.is_asked(task) and upstreams <= self._base.finished_operators():
                running.chain.gate.drain()
        original(self, task, options)

    return ask


@mutation("files that a micro-batch still needs are deleted", (LiveState, "delete_unused"))
def _(original):
    return lambda self, in_flight: original(self, [])


@mutation("merged runs take the place of what came after them", (LiveState, "compacted"))
def _(original):
    def compacted(self, compactions):
        original(self, compactions)
        for one in compactions:
            known = self.snapshots[one.subtask]
            self.snapshots[one.subtask] = replace(known, handles=(one.handle,))

    return compacted


@mutation("a finished split is read once more", (PolledSources, "_is_read"))
def _(original):
    return lambda self, subtask: False


@mutation("a region that was superseded reports what it met", (ContinuousRun, "_is_over"))
def _(original):
    return lambda self, error: False
