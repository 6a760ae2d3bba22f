"""What the pipeline means: a plain execution, checkpoint by checkpoint, without subtasks, barriers,
retries or files."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.expiring import Lives, alive, plain, stored
from simulator.scheduler import require
from simulator.sessions import together_plainly
from simulator.sources import Row
from simulator.upserting import difference, shown
from simulator.windowed import PlainWatermarks, SessionFunction
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.streams import LATE_ROWS
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.ports import SinkInput

#: Beside the states of operators: how far each has come in event time.
WATERMARKS = ":watermarks"


class SequentialExecution:
    """The obviously right twin of everything between the sources and the sinks."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._watermarks = PlainWatermarks(graph)
        self.states: dict[str, dict[Any, int]] = {vertex.name: {} for vertex in graph.keyed} | {WATERMARKS: {}}
        self.outputs: dict[str, list[Row]] = {vertex.name: [] for vertex in graph.sinks}

    def came_to(self) -> tuple[dict[str, dict[int, int]], dict[str, list[Row]]]:
        """States and outputs, as they are now and stay."""
        return {name: dict(state) for name, state in self.states.items()}, dict(self.outputs)

    def go_on_from(self, states: Mapping[str, Mapping[int, int]], outputs: Mapping[str, list[Row]]) -> None:
        """As if nothing had been processed since then."""
        self.states = {name: dict(state) for name, state in states.items()}
        self.outputs = dict(outputs)

    def step(
        self,
        cut: Mapping[str, Sequence[Row]],
        drawn: Mapping[str, Sequence[Row]],
        triggered_at: int,
        ended: set[str],
    ) -> dict[str, list[Row]]:
        """Process one checkpoint's rows by source name, `drawn` being what is on record of steps; returns what each
        sink gets of it. A step keeps the values of its rows, so that none can be lost or doubled."""
        produced: dict[str, list[Row]] = {name: list(rows) for name, rows in cut.items()}
        closed = dict(self.states[WATERMARKS])
        self._watermarks.advance(self.states[WATERMARKS], cut, ended)
        for vertex in self._graph.producers:
            if not isinstance(vertex, KeyedVertex):
                before, after = (
                    produced[vertex.input.origin],
                    produced.setdefault(vertex.name, list(drawn[vertex.name])),
                )
                same = sorted(value for _, value in before) == sorted(value for _, value in after)
                require(same, f"{vertex.name} was to draw keys for the values of {before}, but on record is {after}")
                continue
            function, ttl = vertex.update, vertex.ttl
            lives = Lives(vertex.name, ttl, self.states)
            now = lives.begin(triggered_at)
            stamped = alive(ttl, self.states[vertex.name], lives.horizon)
            state = plain(ttl, stamped)
            rows = [row for stream in vertex.inputs for row in produced[stream.origin]]
            if vertex.window is not None:
                emitted, late = self._windowed(vertex.name, function, rows, closed.get(vertex.name))
                produced[vertex.name], produced[f"{vertex.name}.{LATE_ROWS}"] = sorted(emitted), sorted(late)
                continue
            by_key: dict[int, list[Row]] = {}
            for row in rows:
                by_key.setdefault(function.key_of(row), []).append(row)
            changed = {k: function.update(state.get(k), group) for k, group in by_key.items() if function.stores(k)}
            emitted = [row for key, group in by_key.items() for row in function.emit(key, state.get(key), group)]
            fresh = {key: stored(ttl, value, now) for key, value in changed.items()}
            lives.wrote(fresh.values())
            self.states[vertex.name] = alive(ttl, stamped | fresh, lives.horizon)
            produced[vertex.name] = sorted(emitted if function.emits else changed.items())
        given = {}
        ttls = {vertex.name: vertex.ttl for vertex in self._graph.keyed}
        for vertex in self._graph.sinks:
            origin = vertex.input.origin
            origin = f"{origin}.{LATE_ROWS}" if vertex.input.output == LATE_ROWS else origin
            if vertex.sink.input is SinkInput.CURRENT:
                lasting = plain(ttls[origin], self.states[origin])
                given[vertex.name] = self.outputs[vertex.name] = sorted(lasting.items())
            elif vertex.sink.input is SinkInput.UPSERTS:
                lasting = shown(plain(ttls[origin], self.states[origin]))
                given[vertex.name] = difference(dict(self.outputs[vertex.name]), lasting)
                self.outputs[vertex.name] = sorted(lasting.items())
            else:
                given[vertex.name] = sorted(produced[origin])
                self.outputs[vertex.name] = sorted(self.outputs[vertex.name] + given[vertex.name])
        return given

    def _windowed(
        self, name: str, function: Any, rows: Sequence[Row], closed: int | None
    ) -> tuple[list[Row], list[Row]]:
        """What leaves, and what comes too late."""
        state = self.states[name]
        before = dict(state)
        if isinstance(function, SessionFunction):
            changed, late = function.change(state, rows, closed, together_plainly)
            state.update(changed)
        else:
            taken, late = function.take_in(rows, None if closed is None else closed - function.lateness)
            for place, group in taken.items():
                state[place] = function.digest(state.get(place), group)
        watermark = self.states[WATERMARKS].get(name)
        leaving = function.leaving(
            state, [place for place in state if state[place] != before.get(place)], closed, watermark
        )
        emitted = [function.emitted(place, state[place]) for place in leaving]
        state.update(dict.fromkeys(function.going(state, watermark), 0))
        return emitted, late
