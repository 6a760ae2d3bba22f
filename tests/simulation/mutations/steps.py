"""Planted mistakes in what the consumers of a step see."""

from dataclasses import replace

from simulator.graphs import KEYS
from simulator.region import SimulatedRegion
from simulator.running_parts import PlainJobs

from mutations.planting import mutation
from tidegate.dataflow.elements import Exchange
from tidegate.pipeline.definition import StepVertex


@mutation("each consumer of a step computes its rows for itself", (SimulatedRegion, "_rows"))
def _(original):
    def rows(self, data):
        found = original(self, data)
        steps = {vertex.operator_id for vertex in self.graph.producers if isinstance(vertex, StepVertex)}
        if isinstance(data, Exchange) and any(handle.path.split("/")[-2] in steps for handle in data.handles):
            return [(self.random.randrange(KEYS), value) for _, value in found]
        return found

    return rows


@mutation("a retry computes a step again instead of reading the rows on record", (SimulatedRegion, "_run"))
def _(original):
    def run(self, station):
        task = self._task
        if isinstance(station.vertex, StepVertex):
            mine = {id_ for id_ in task.acknowledged if id_.operator_id == station.vertex.operator_id and task.attempts}
            attempts = dict.fromkeys(mine, max(task.attempts.values(), default=0)) | dict(task.attempts)
            known = {id_: snapshot for id_, snapshot in task.acknowledged.items() if id_ not in mine}
            self._task = replace(task, attempts=attempts, acknowledged=known)
            report, self._report = self._report, lambda acks: {}
            try:
                return original(self, station) if mine else _reporting(self, report, original, station)
            finally:
                self._task, self._report = task, report
        return original(self, station)

    return run


def _reporting(region, report, original, station):
    region._report = report
    return original(region, station)


@mutation("the subtasks of a step acknowledge one by one", (SimulatedRegion, "_answers_early"))
def _(original):
    return lambda self, station: True


@mutation("each consumer of a step computes its rows for itself where it runs on", (PlainJobs, "drawn"))
def _(original):
    return lambda self, data: [[split, at, self._random.random()] for split, at, _ in original(self, data)]
