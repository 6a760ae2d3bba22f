"""Planted mistakes in what several checkpoints of a continuous run at once have to do with each other."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.coordination.steps import finalize, trigger, validate
from tidegate.coordination.steps.validate import _Begun
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.running import RunningChain
from tidegate.protocol.continuous import overlap
from tidegate.protocol.facts.records import CheckpointKind


@mutation("older checkpoints go on beside one that has completed", (finalize, "choose_overtaken"))
def _(original):
    return lambda checkpoint_id, in_progress: []


@mutation("a checkpoint is judged before an older savepoint has ended", (overlap, "find_earlier_savepoint"))
def _(original):
    return lambda checkpoint_id, in_progress: None


@mutation("all versions of what was staged are shown", (finalize, "has_versions"))
def _(original):
    return lambda subtasks: False


@mutation("a verdict is on all versions of what was staged", (validate, "wanted"), (_Begun, "is_overtaken"))
def _(original):
    return (lambda self, tx: False) if original is _Begun.is_overtaken else lambda subtasks, latest: subtasks


@mutation("a verdict stands although an older checkpoint has completed meanwhile", (_Begun, "is_overtaken"))
def _(original):
    return lambda self, tx: False


@mutation("an older checkpoint completes under a verdict that is on its rows", (finalize, "find_overtaking"))
def _(original):
    return lambda checkpoint_id, in_progress: None


@mutation("a version is shown after the checkpoint that it may just not follow", (overlap, "_follows"))
def _(original):
    def follows(handle, completed):
        first, below = handle.details[overlap.FOLLOWS]
        return first < completed and (below is None or completed <= below) if first else completed <= below

    return follows


@mutation("a sink stages what came since the last barrier and no more", (RunningChain, "take"))
def _(original):
    def take(self, plan):
        self.pending[plan.checkpoint_id] = pending = replace(original(self, plan), longer=(), bounds=())
        return pending

    return take


@mutation("with a checkpoint completes what came behind its barrier", (RunningChain, "completed"))
def _(original):
    return lambda self, checkpoint_id: original(self, max({checkpoint_id, *self.epochs}))


@mutation("savepoints of a scheduled run are forced", (trigger, "is_forced"))
def _(original):
    return lambda request, *_: request.kind is not CheckpointKind.CHECKPOINT


@mutation("a pipeline without a region takes as many checkpoints as one with it", (trigger, "concurrency"))
def _(original):
    return lambda region, max_concurrent, now: max_concurrent


@mutation("runs of a subtask are merged although it has acknowledged that it finishes", (LiveState, "acknowledged"))
def _(original):
    def acknowledged(self, checkpoint_id, acknowledgement):
        before = set(self.settled)
        acknowledgement = original(self, checkpoint_id, acknowledgement)
        self.settled = before
        return acknowledgement

    return acknowledged
