"""Planted mistakes in attempts, acknowledgements and what a checkpoint starts from."""

from dataclasses import replace

from memory_transaction import MemoryTransaction

from mutations.planting import MUTATIONS, Replacement, mutation
from tidegate.coordination.steps import snapshot as snapshotting
from tidegate.coordination.steps import validate as validations
from tidegate.coordination.steps.snapshot import Snapshotting
from tidegate.dataflow import scheduled_driver, source_snapshots
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.records import AcknowledgeResult, HandleKind, Snapshot
from tidegate.protocol.steps import restored_snapshots as restores


@mutation("a retry takes a new cut instead of replaying the one on record", (scheduled_driver, "snapshot_sources"))
def _(original):
    def snapshot_sources(parts, task, acknowledge, now):
        on_record = set(task.acknowledged)
        attempts = dict.fromkeys(task.acknowledged, 1) | dict(task.attempts)

        def report(acks):
            fresh = [ack for ack in acks if ack.subtask not in on_record]
            return acknowledge(fresh) if fresh else {}

        return original(parts, replace(task, attempts=attempts, acknowledged={}), report, now)

    return snapshot_sources


def _held(original):
    def hold_back(self, cut):
        self.held = list(cut)
        return {each.subtask: AcknowledgeResult.SUCCESS for each in cut}

    return hold_back


def _late(original):
    def execute(self):
        """Operators run on a cut that nobody has recorded yet."""
        original(self)
        if held := getattr(self, "held", None):
            source_snapshots.confirm(self._graph, self._task, self._acknowledge, held)

    return execute


MUTATIONS["sources acknowledge after the operators that read the cut"] = (
    Replacement(ScheduledDriver, "_hold_back", _held),
    Replacement(ScheduledDriver, "execute", _late),
)


@mutation("attempts are not distinguished", (MemoryTransaction, "begin_attempt"))
def _(original):
    def begin_attempt(self, checkpoint_id):
        fresh = all(known.attempt == 0 for known in self.state.subtasks[checkpoint_id].values())
        return original(self, checkpoint_id) if fresh else 1

    return begin_attempt


@mutation("a report of a stale attempt counts", (Snapshotting, "_record"))
def _(original):
    def record(self, checkpoint_id, acks):
        known = self._context.store.subtasks(self._context.pipeline_id, checkpoint_id)
        return original(self, checkpoint_id, [replace(ack, attempt=known[ack.subtask].attempt) for ack in acks])

    return record


def _answering(mistaken, instead):
    """Acknowledgements that are answered otherwise."""

    def make(original):
        return lambda *facts: [instead if result is mistaken else result for result in original(*facts)]

    return make


for _mistaken in AcknowledgeResult.DUPLICATE, AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED:
    MUTATIONS[f"a report that should be {_mistaken} is counted"] = (
        Replacement(snapshotting, "decide_acknowledgements", _answering(_mistaken, AcknowledgeResult.SUCCESS)),
    )


@mutation("the first report moves a checkpoint on", (MemoryTransaction, "record_acknowledgements"))
def _(original):
    def record(self, checkpoint_id, reports, at, moves=False):
        original(self, checkpoint_id, reports, at)
        if moves:
            self.advance(checkpoint_id, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at)
        return 0

    return record


@mutation("a checkpoint starts from the oldest one retained", (MemoryTransaction, "latest_completed"))
def _(original):
    return lambda self: next(iter(self.retained()), None)


@mutation("after a rescale a shared run is read in all of its key groups", (restores, "_narrowed"))
def _(original):
    return lambda run, *ranges: run if original(run, *ranges) else None


@mutation("a rescaled subtask keeps what the old one of its index has staged", (restores, "_rescaled"))
def _(original):
    def rescaled(before, plan, snapshots):
        result = original(before, plan, snapshots)
        for subtask, snapshot in result.items():
            old = snapshots.get(subtask, Snapshot()).handles
            staged = tuple(handle for handle in old if handle.kind is HandleKind.STAGED)
            result[subtask] = replace(snapshot, handles=snapshot.handles + staged)
        return result

    return rescaled


@mutation(
    "a checkpoint goes on with another parallelism than it was triggered for",
    (validations, "require_same_plan"),
    (snapshotting, "require_same_plan"),
)
def _(original):
    return lambda record, plan: None


@mutation("an attempt that was superseded reports what it met", (snapshotting, "fenced_error"))
def _(original):
    return lambda record, subtasks, task: None
