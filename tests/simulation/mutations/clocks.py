"""Planted mistakes in what a time means that a wrong clock has written."""

from datetime import timedelta

from mutations.planting import mutation
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.coordination.steps import checkpoint_failures, region_lease
from tidegate.protocol.steps import admission


@mutation("the minimum pause is waited for until a clock that was set back has caught up", (admission, "time_left"))
def _(original):
    return lambda began, lasts, now: max(began + lasts - now, timedelta(0))


@mutation("a deadline of a clock that was set back is waited for", (checkpoint_failures, "choose_misdated"))
def _(original):
    return lambda in_progress, timeout, now: []


@mutation("a region gives no sign of life until its clock has caught up", (region_lease, "needs_sign"))
def _(original):
    return lambda region, now: region.seen_at is None or now - region.seen_at >= timedelta(seconds=15)


@mutation("periodic checkpoints are due by the wall clock", (ContinuousRun, "_now"))
def _(original):
    return property(lambda self: timedelta(seconds=self._context.clock.now().timestamp()))
