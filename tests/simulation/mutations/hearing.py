"""Planted mistakes in what listeners hear, in who is late, and in what savepoints count for."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.coordination.observing import listeners
from tidegate.coordination.steps import finalize as commits
from tidegate.coordination.steps import snapshot as snapshotting
from tidegate.coordination.steps.notify import Delivery


@mutation("listeners are notified before the sinks have committed", (Delivery, "_commit"))
def _(original):
    def commit(self, record, subtasks, committer):
        self._listeners.completed(record.checkpoint_id)
        original(self, record, subtasks, committer)

    return commit


@mutation("a failure names the newest checkpoint as the latest completed", (listeners, "_latest_notified"))
def _(original):
    return lambda tx: max((record.checkpoint_id for record in tx.failed_after(0)), default=None)


@mutation("a report after a deadline that nobody noticed counts", (snapshotting, "choose_overdue"))
def _(original):
    return lambda in_progress, now: []


@mutation("savepoints count among the retained", (commits, "choose_subsumed"))
def _(original):
    def choose(retained, rule, now):
        going = original(retained, replace(rule, number=1), now)
        return going[: max(len(retained) - rule.number, 0)]

    return choose
