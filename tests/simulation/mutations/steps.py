"""Planted mistakes in what the consumers of a step see."""

from dataclasses import replace

from simulator.graphs import KEYS
from simulator.jobs import SimulatedJobs
from simulator.running_parts import PlainJobs

from mutations.planting import MUTATIONS, Replacement, mutation
from tidegate.dataflow import scheduled_driver
from tidegate.dataflow.elements import Exchange
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.pipeline.vertices import StepVertex


@mutation("each consumer of a step computes its rows for itself", (SimulatedJobs, "_rows"))
def _(original):
    def rows(self, data, late=False):
        found = original(self, data, late)
        steps = {vertex.operator_id for vertex in self.graph.producers if isinstance(vertex, StepVertex)}
        if isinstance(data, Exchange) and any(handle.path.split("/")[-2] in steps for handle in data.handles):
            return [(self.random.randrange(KEYS), value) for _, value in found]
        return found

    return rows


def _steps_are_pending(original):
    def plan(graph, task):
        steps = {vertex.operator_id for vertex in graph.producers if isinstance(vertex, StepVertex)}
        mine = {id_ for id_ in task.acknowledged if id_.operator_id in steps and task.attempts}
        again = dict.fromkeys(mine, max(task.attempts.values(), default=0))
        return original(graph, replace(task, attempts=again | dict(task.attempts)))

    return plan


def _silent(original):
    def send(self):
        self._unsent = [ack for ack in self._unsent if ack.subtask not in self._task.acknowledged]
        original(self)

    return send


MUTATIONS["a retry computes a step again instead of reading the rows on record"] = (
    Replacement(scheduled_driver, "plan_snapshot", _steps_are_pending),
    Replacement(
        scheduled_driver, "exchange_of", lambda original: lambda execution, known, n: original(execution, {}, n)
    ),
    Replacement(ScheduledDriver, "_send", _silent),
)


@mutation("the subtasks of a step acknowledge one by one", (ScheduledDriver, "_record"))
def _(original):
    def record(self, execution, news):
        original(self, execution, news)
        self._acknowledge_for(execution, {report.subtask_index for report in news.reports})

    return record


@mutation("each consumer of a step computes its rows for itself where it runs on", (PlainJobs, "drawn"))
def _(original):
    return lambda self, data: [[split, at, self._random.random()] for split, at, _ in original(self, data)]
