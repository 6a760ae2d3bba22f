"""Planted mistakes around the commit point: what is judged, completed, notified and aborted."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps import finalize as commit_points
from tidegate.coordination.steps import outstanding
from tidegate.coordination.steps import validate as validations
from tidegate.coordination.steps.outstanding import Outstanding
from tidegate.protocol.facts.lifecycle import Status


@mutation("a failed verdict is overlooked", (validations, "decide_rejection"))
def _(original):
    return lambda record, targets, verdicts: original(
        record, targets, [replace(verdict, success=True) for verdict in verdicts]
    )


@mutation("a missing verdict is a good one", (validations, "decide_rejection"))
def _(original):
    return lambda record, targets, verdicts: original(record, [verdict.target for verdict in verdicts], verdicts)


@mutation("staged files are believed without a look at them", (commit_points, "committables"))
def _(original):
    return lambda subtasks, operator_id: ()


@mutation("sinks are notified before the checkpoint is committed", (CheckpointCoordinator, "finalize"))
def _(original):
    def finalize(self, checkpoint_id, notifies=False):
        self._delivery.deliver(Outstanding(None, [self.context.store.checkpoint(self.pipeline_id, checkpoint_id)]))
        return original(self, checkpoint_id, notifies)

    return finalize


@mutation("a notification that a crash cut short is never made up for", (outstanding, "choose_unnotified"))
def _(original):
    return lambda retained, up_to=None: [r for r in original(retained, up_to) if r.checkpoint_id == up_to]


@mutation("sinks are notified of the newest checkpoint first", (outstanding, "choose_unnotified"))
def _(original):
    return lambda retained, up_to=None: [] if up_to is None else original(retained, up_to)[::-1]


@mutation("what an aborted checkpoint has staged is committed", (CheckpointCoordinator, "abort"))
def _(original):
    def abort(self, checkpoint_id, reason, message):
        record = original(self, checkpoint_id, reason, message)
        self._delivery.deliver(Outstanding(None, [record] if record.status is Status.FAILED else []))
        return record

    return abort
