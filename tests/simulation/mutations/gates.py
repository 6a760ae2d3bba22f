"""Planted mistakes in barrier handling."""

from mutations.planting import mutation
from tidegate.dataflow.input_gate import InputGate
from tidegate.protocol.barriers.aligned import AlignedBarrierHandler
from tidegate.protocol.barriers.alignment import Alignment
from tidegate.protocol.barriers.messages import Unblock
from tidegate.protocol.subtask.steps import SubtaskSteps


@mutation("a channel goes on before the snapshot is taken", (Alignment, "block"))
def _(original):
    return lambda self, channel: []


@mutation("the snapshot is taken at the first barrier", (AlignedBarrierHandler, "_take_if_complete"))
def _(original):
    def take(self):
        self._alignment._target = 1
        return original(self)

    return take


@mutation("a channel that ended is waited for", (AlignedBarrierHandler, "_end_of_partition"))
def _(original):
    return lambda self, channel: []


@mutation("a barrier that is obsolete begins its checkpoint again", (AlignedBarrierHandler, "_barrier"))
def _(original):
    def begin_again(self, barrier):
        if self._alignment.is_obsolete(barrier.checkpoint_id):
            self._alignment.end(barrier.checkpoint_id - 1)
        return original(self, barrier)

    return begin_again


@mutation("a newer barrier inherits what the older one had aligned", (AlignedBarrierHandler, "_barrier"))
def _(original):
    def inherit(self, barrier):
        if self._alignment.pending and barrier.checkpoint_id > self._alignment.current:
            self._alignment.begin(barrier)
        return original(self, barrier)

    return inherit


@mutation("a checkpoint that is aborted leaves its channels blocked", (AlignedBarrierHandler, "_abort"))
def _(original):
    def abort(self, checkpoint_id, reason):
        return [action for action in original(self, checkpoint_id, reason) if not isinstance(action, Unblock)]

    return abort


@mutation("a channel that ended does not complete what waits for it", (AlignedBarrierHandler, "_end_of_partition"))
def _(original):
    def end(self, channel):
        self._alignment.close(channel)
        return []

    return end


@mutation("a channel loses its order", (InputGate, "drain"))
def _(original):
    def drain(self, max_bytes=None):
        for channel in self._channels:
            channel.queue.reverse()
        return original(self, max_bytes)

    return drain


@mutation("a snapshot that is due after a newer one is taken", (SubtaskSteps, "_begin"))
def _(original):
    def begin(self, event):
        self._last_started = min(self._last_started, event.checkpoint_id - 1)
        return original(self, event)

    return begin
