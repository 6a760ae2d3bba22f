"""Planted mistakes in what has finished, and in how a pipeline stops."""

from mutations.planting import mutation
from tidegate.coordination.steps import checkpoint_failures as failing
from tidegate.coordination.steps import pipeline_status as controls
from tidegate.coordination.steps import trigger as desks
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.dataflow.input_gate import InputGate
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.steps import finished
from tidegate.protocol.steps import snapshot as snapshots
from tidegate.protocol.steps.stopping import Restart


@mutation("an operator finishes with the first of its inputs", (InputGate, "_ended"))
def _(original):
    def ended(self, checkpoint_id, captured):
        original(self, checkpoint_id, captured)
        return next((channel.ended for channel in self._channels if channel.ended is not None), None)

    return ended


@mutation("who has finished is asked again", (desks, "plan_checkpoint"))
def _(original):
    return lambda subtasks, restored, restaged: original(subtasks, {}, restaged)


@mutation("a sink that has finished carries what it had staged", (finished, "_kept"))
def _(original):
    return lambda snapshot: snapshot.handles


@mutation("a sink of current rows that has finished carries nothing", (desks, "plan_checkpoint"))
def _(original):
    return lambda subtasks, restored, restaged: original(subtasks, restored, frozenset())


@mutation("a stopped pipeline counts as drained", (snapshots, "stop_mode"))
def _(original):
    return lambda record: None if original(record) is None else StopMode.DRAIN


@mutation("what is in progress goes on beside the savepoint to stop with", (desks, "abort_all"))
def _(original):
    return lambda tx, reason, now, why=None, last=None: None


@mutation("a pipeline goes on behind its end", (controls, "require_resumable"))
def _(original):
    return lambda pipeline, latest: None


@mutation("a pipeline whose savepoint failed is still stopping", (failing, "_stop_failed"))
def _(original):
    return lambda tx, record, reason, message, now: None


@mutation("a pipeline goes on although a subtask could not take its last savepoint", (failing, "decide_stop_failure"))
def _(original):
    return lambda record, reason, message: Restart()


@mutation("a DAG run that has ended leaves its checkpoint in progress", (CheckpointFailureManager, "abort_request"))
def _(original):
    def abort_request(self, request_id, reason, message, entry=None):
        with self._context.transaction() as tx:
            return tx.latest_by_request(request_id)

    return abort_request
