"""Planted mistakes in event time: how far operators have come, and what becomes of windows by that."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.dataflow import event_time, in_flight, operator_chains, scheduled_driver, source_snapshots
from tidegate.dataflow.channels import Channels
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.driver_base import DriverBase
from tidegate.dataflow.elements import has_rows
from tidegate.dataflow.event_time import InputWatermarks
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.steps import restored_snapshots as restore


@mutation("a watermark is not restored", (DriverBase, "restore_watermarks"))
def _(original):
    return lambda self, restored: None


@mutation("an operator has come as far as the fastest of its inputs", (event_time, "lowest"))
def _(original):
    return lambda inputs, known: max((known[name] for name in inputs if name in known), default=None)


@mutation("an operator has come somewhere although one of its inputs has not", (event_time, "lowest"))
def _(original):
    return lambda inputs, known: min((known[name] for name in inputs if name in known), default=None)


@mutation("a watermark goes back", (event_time, "raised"))
def _(original):
    return lambda before, to: before if to is None else to


@mutation("late rows count in windows that have been emitted", (ScheduledDriver, "_take_snapshot"))
def _(original):
    def take_snapshot(self, execution, jobs):
        execution.gone = None
        original(self, execution, jobs)

    return take_snapshot


@mutation("rows are late by the watermark to which they themselves have led", (ScheduledDriver, "_take_snapshot"))
def _(original):
    def take_snapshot(self, execution, jobs):
        execution.gone = execution.chain.watermarks.lowest
        original(self, execution, jobs)

    return take_snapshot


@mutation("a drain takes its snapshot before the last windows are emitted", (InputWatermarks, "end"))
def _(original):
    return lambda self, channel: None


@mutation("a source has ended when one of its splits has", (InputWatermarks, "end"))
def _(original):
    def end(self, channel):
        origin = self._channels[channel].origin
        if self.has(origin):
            self._open[origin] = {channel}
        original(self, channel)

    return end


@mutation("a retry forgets the event times of what it reads again", (scheduled_driver, "snapshot_sources"))
def _(original):
    def snapshot_sources(parts, task, acknowledge, now):
        found = original(parts, task, acknowledge, now)
        segments = {
            id_: replace(each, event_time=None) if each is not None and id_ in task.acknowledged else each
            for id_, each in found.segments.items()
        }
        return replace(found, segments=segments)

    return snapshot_sources


@mutation("the event times of what was read are no part of the position", (source_snapshots, "with_event_time"))
def _(original):
    return lambda snapshot, before, largest: snapshot


@mutation("a watermark does not travel without rows", (Channels, "feed"))
def _(original):
    def feed(self, channel, data):
        if has_rows(data):
            original(self, channel, data)

    return feed


@mutation("windows are emitted only if rows have come", (Execution, "has_windows_due"))
def _(original):
    return property(lambda self: self.has_input and original.fget(self))


@mutation("a rescale forgets how far operators have come", (restore, "_rescaled"))
def _(original):
    def rescaled(before, plan, snapshots):
        found = original(before, plan, snapshots)
        return {
            id_: Snapshot(each.handles, None, each.finished) if "watermarks" in (each.position or {}) else each
            for id_, each in found.items()
        }

    return rescaled


@mutation("no row may come later than others", (InputWatermarks, "arrive"))
def _(original):
    def arrive(self, origin, data):
        self._delays = dict.fromkeys(self._delays, 0)
        original(self, origin, data)

    return arrive


@mutation("data in flight does not say how far it has come", (in_flight, "_to_json"))
def _(original):
    def to_json(data):
        return {name: value for name, value in original(data).items() if name not in ("event_time", "watermark")}

    return to_json


@mutation("a continuous run counts late rows in windows that have been emitted", (ContinuousDriver, "_process"))
def _(original):
    def process(self, running, batch):
        running.gone = None
        original(self, running, batch)

    return process


@mutation("windows go from state when they leave, however late rows may come", (operator_chains, "gone_by"))
def _(original):
    return lambda before, watermark, lateness: original(before, watermark, 0)


@mutation("windows that have left are not corrected before the next one ends", (Execution, "has_windows_due"))
def _(original):
    def has_windows_due(self):
        window = getattr(self.chain.vertex, "window", None)
        return window is not None and window.has_end_in(self.closed, self.watermark)

    return property(has_windows_due)


@mutation("after a restore no window has gone", (InputWatermarks, "restore"))
def _(original):
    def restore(self, snapshot):
        original(self, snapshot)
        self.gone = None

    return restore


@mutation("a step does not record up to where windows have gone", (Execution, "goes"))
def _(original):
    return property(lambda self: self.gone)


@mutation("a continuous run takes windows that have left for gone", (ContinuousDriver, "_process"))
def _(original):
    def process(self, running, batch):
        running.gone = running.closed
        original(self, running, batch)

    return process
