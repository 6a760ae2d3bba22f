"""Planted mistakes in when state has expired, and what becomes of it."""

from dataclasses import replace

from simulator import expiring

from mutations.planting import mutation
from tidegate.dataflow import execution_plan
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.protocol.schema import expiry
from tidegate.protocol.schema.expiry import BY_RUNS_ALONE


@mutation("what has expired is judged by the time of a retry", (ScheduledDriver, "__init__"))
def _(original):
    def init(self, parts, task, acknowledge):
        original(self, parts, replace(task, triggered_at=parts.clock.now()), acknowledge)

    return init


@mutation("a function is shown what has expired", (expiry, "find_horizon"))
def _(original):
    def find_horizon(column, after, processing_time, runs, moment):
        found = original(column, after, processing_time, runs, moment)
        return found if found is None or moment.at == BY_RUNS_ALONE else found - after

    return find_horizon


@mutation("a row expires a little before its time", (expiry, "find_horizon"))
def _(original):
    def find_horizon(column, after, *rest):
        found = original(column, after, *rest)
        return None if found is None else found + after // 10

    return find_horizon


@mutation("a merge takes away rows that have not expired", (expiry, "find_horizon"))
def _(original):
    def find_horizon(column, after, processing_time, runs, moment):
        found = original(column, after, processing_time, runs, moment)
        return found if found is None or moment.at != BY_RUNS_ALONE else found + after

    return find_horizon


@mutation("a subtask knows the times that its checkpoint's other subtasks write", (expiry, "find_clock"))
def _(original):
    return lambda column, runs, checkpoint_id: original(column, list(runs)[:1], checkpoint_id)


@mutation("a change does not prolong a row's life", (expiring, "stored"))
def _(original):
    return lambda ttl, value, at: original(ttl, value, at - ttl.after // 2 if ttl else at)


@mutation("what expires stays in a table to which nothing comes", (execution_plan, "may_expire_between"))
def _(original):
    return lambda *facts: False


@mutation("what a merge takes away leaves older rows in sight", (expiring.Judged, "merged"))
def _(original):
    return lambda self, chosen, checkpoint_id, is_oldest: original(self, chosen, checkpoint_id, True)
