"""Planted mistakes in what expires in a pipeline that runs continuously."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.snapshot_steps import SnapshotSteps
from tidegate.protocol.schema import expiry


@mutation("a continuous run judges what has expired by when it began", (ContinuousDriver, "_micro_batch_at"))
def _(original):
    return lambda self: self._at or original(self)


@mutation("the event times of a micro-batch count before their checkpoint has completed", (LiveState, "as_of"))
def _(original):
    def as_of(self, checkpoint_id):
        return {
            id_: replace(each, handles=tuple(earlier(handle, checkpoint_id) for handle in each.handles))
            for id_, each in original(self, checkpoint_id).items()
        }

    def earlier(handle, checkpoint_id):
        return replace(handle, created_by=min(handle.created_by, checkpoint_id - 1))

    return as_of


@mutation("a table of a continuous run is judged by when it is staged", (SnapshotSteps, "_snapshot"))
def _(original):
    def snapshot(self, vertex, checkpoint_id):
        begun = self._tasks[checkpoint_id]
        self._tasks[checkpoint_id] = replace(begun, triggered_at=self._parts.clock.now())
        found = original(self, vertex, checkpoint_id)
        self._tasks[checkpoint_id] = begun
        return found

    return snapshot


@mutation("a clock that is set back leaves rows out of a table that live again", (expiry, "_may_be_between"))
def _(original):
    def between(oldest, newest, known, before, now):
        return (before is None or before < now) and original(oldest, newest, known, before, now)

    return between
