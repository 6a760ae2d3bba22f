"""Planted mistakes in what becomes of the rows that an operator emits."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.dataflow import reports, subtask_snapshots
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.records import HandleKind


def _has(report, kind):
    return any(handle.kind is kind for handle in report.handles)


@mutation("an operator that emits acknowledges one subtask after the other", (ScheduledDriver, "_record"))
def _(original):
    def record(self, execution, news):
        if not isinstance(execution.chain.vertex, KeyedVertex):
            return original(self, execution, news)
        return self._acknowledge_for(execution, execution.record(news.reports))

    return record


@mutation("what an operator emits is lost where its state has changed, too", (reports, "_both"))
def _(original):
    return lambda one, other: one


@mutation("the state of an operator is lost where it has emitted something", (reports, "_both"))
def _(original):
    return lambda one, other: other


@mutation("what is emitted without a change of state is not acknowledged", (subtask_snapshots, "_handles"))
def _(original):
    def handles(plan, execution, subtask):
        found = original(plan, execution, subtask)
        report = execution.reports.get(subtask)
        if report is None or not getattr(execution.chain.vertex, "emits", False) or _has(report, HandleKind.RUN):
            return found
        return tuple(handle for handle in found if handle not in report.handles)

    return handles


@mutation("what is emitted without a change of state is not sent on", (ContinuousDriver, "_send_on"))
def _(original):
    def send_on(self, running, execution, reported):
        emits = getattr(running.vertex, "emits", False)
        original(self, running, execution, [each for each in reported if not emits or _has(each, HandleKind.RUN)])

    return send_on


@mutation("a change of state without anything emitted is forgotten", (LiveState, "ran"))
def _(original):
    def ran(self, reported):
        lost = [each for each in reported if each.operator_id == "numbers" and not _has(each, HandleKind.EXCHANGE)]
        original(self, [replace(each, handles=()) if each in lost else each for each in reported])

    return ran
