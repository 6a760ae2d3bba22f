"""Planted mistakes in what a continuous run does beside its rounds: it stages for snapshots, and merges runs."""

from contextlib import suppress
from dataclasses import replace

from mutations.planting import mutation
from tidegate.dataflow.run_merging import RunMerging
from tidegate.dataflow.running import RunningChain, append
from tidegate.dataflow.snapshot_writes import SnapshotWrites
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.subtask.messages import WriteEnded


@mutation("a snapshot counts as written when its writing begins", (SnapshotWrites, "ended"))
def _(original):
    def ended(self):
        begun, self._under_way = self._under_way, []
        for write in begun:
            yield write.vertex, WriteEnded(write.pending.plan.checkpoint_id)

    return ended


@mutation("what was staged for an aborted checkpoint goes with the next one", (SnapshotWrites, "ended"))
def _(original):
    def ended(self):
        done = [write for write in self._under_way if write.reports.done()]
        self._under_way = [write for write in self._under_way if write not in done]
        for write in done:
            for pending in list(write.vertex.pending.values()):
                with suppress(CheckpointError):
                    pending.execution.record(write.reports.result())
                yield write.vertex, WriteEnded(pending.plan.checkpoint_id)

    return ended


@mutation("what is staged beside the rounds takes in what comes behind the barrier", (RunningChain, "hold"))
def _(original):
    def hold(self, batch):
        original(self, batch)
        for pending in self.pending.values():
            for origin, data in batch.items():
                append(pending.execution.arrived, origin, data)

    return hold


@mutation("a merge forgets the runs behind those that it merged", (RunMerging, "take"))
def _(original):
    def take(self):
        merged = self._merged.result() if self._merged is not None and self._merged.done() else []
        taken = original(self)
        for each in merged:
            before = self._state.snapshots[each.subtask]
            up_to = 1 + [handle.path for handle in before.handles].index(each.handle.path)
            self._state.snapshots[each.subtask] = replace(before, handles=before.handles[:up_to])
        return taken

    return take


@mutation("rows of runs that no completed checkpoint has are merged by event time", (RunMerging, "_mergeable"))
def _(original):
    return lambda self, checkpoint_id: self._state.as_of(checkpoint_id)
