"""Windows in simulated pipelines: which have them, what a window of rows becomes, and the plain computation of both.

A row's event time is in its value. The number of an open window stands in state by a number for key and end, and 0 once
it has gone from there: when it was emitted, or so long after that as rows may correct it. How sessions differ is in
`sessions`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.in_the_commit import accepted, make_sink
from simulator.sessions import Session, Together, change, has_sessions, together
from tidegate.pipeline.aggregates import count
from tidegate.pipeline.corrections import VERSIONS, Corrections
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex
from tidegate.pipeline.windows import EventTime, FixedWindow
from tidegate.ports import SinkInput
from tidegate.protocol.steps.watermarks import END_OF_TIME

if TYPE_CHECKING:
    from simulator.world import World

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the pipelines that they always drew.
_SALT = 3712
KEYS = 4
TIMES = 4096
MODULUS = 2**31 - 1
ROWS = "k bigint, v timestamp"
Row = tuple[int, int]


def windows(seed: int) -> Random:
    """Draws of its own, so that the rest stays as it was drawn."""
    return Random(f"windows {_SALT} {seed}")


def time_of(row: Row) -> int:
    return row[1] % TIMES


class Leaving:
    """What leaves and goes of windows, whose numbers are `digest`s of their rows, as of `KeyedFunction`: which
    checkpoint brought them matters. A window that rows change within `lateness` is emitted again."""

    lateness = 0
    emits = True

    def end_of(self, place: int) -> int:
        return place // KEYS

    def digest(self, old: int | None, rows: Sequence[Row]) -> int:
        return ((old or 1) * 31 + sum(value * value + 7 for _, value in rows)) % MODULUS or 1

    def leaving(
        self, state: Mapping[int, int], changed: Collection[int], closed: int | None, watermark: int | None
    ) -> list[int]:
        """The windows that end now, and those that had and have changed."""
        if watermark is None:
            return []
        ended = [place for place in state if state[place] and self.end_of(place) <= watermark]
        return [place for place in ended if closed is None or self.end_of(place) > closed or place in changed]

    def going(self, state: Mapping[int, int], watermark: int | None) -> list[int]:
        """The windows that nothing corrects any more."""
        if watermark is None:
            return []
        until = watermark if watermark == END_OF_TIME else watermark - self.lateness
        return [place for place in state if state[place] and self.end_of(place) <= until]

    def emitted(self, place: int, number: int) -> Row:
        """Its event time is the last moment of the window."""
        return place % KEYS, (number % 100_000) * TIMES + self.end_of(place) - 1


@dataclass(frozen=True)
class WindowedFunction(Leaving):
    """Fixed windows of rows."""

    size: int
    slide: int
    lateness: int = 0
    kind: str = "windows"

    def places(self, row: Row, gone: int | None) -> list[int]:
        """The windows of a row that are in state, as it numbers them."""
        at = time_of(row)
        start, ends = at // self.slide * self.slide, []
        while start + self.size > at:
            ends.append(start + self.size)
            start -= self.slide
        return [end * KEYS + row[0] % KEYS for end in ends if gone is None or end > gone]

    def take_in(self, rows: Iterable[Row], gone: int | None) -> tuple[dict[int, list[Row]], list[Row]]:
        """By place, its rows; and the late ones."""
        taken: dict[int, list[Row]] = {}
        late = []
        for row in rows:
            places = self.places(row, gone)
            for place in places:
                taken.setdefault(place, []).append(row)
            late += [] if places else [row]
        return taken, late


@dataclass(frozen=True)
class SessionFunction(Leaving):
    """Sessions of rows. Each leaves once, and which ones there are depends on all that came before."""

    gap: int
    kind: str = "sessions"

    def end_of(self, place: int) -> int:
        return Session.at(place).end

    def own(self, row: Row) -> Session:
        """The session of a row by itself."""
        return Session(row[0] % KEYS, time_of(row), time_of(row) + self.gap)

    def change(
        self, state: Mapping[int, int], rows: Sequence[Row], gone: int | None, by: Together = together
    ) -> tuple[dict[int, int], list[Row]]:
        """What rows change in state, and the late ones."""
        own = [self.own(row) for row in rows]
        changed, late = change(state, own, gone, lambda had, mine: self.digest(had, [rows[at] for at in mine]), by)
        return changed, [rows[at] for at in late]

    def emitted(self, place: int, number: int) -> Row:
        session = Session.at(place)
        return session.key, ((number + session.begin) % 100_000) * TIMES + session.end - 1


@dataclass(frozen=True, slots=True)
class Sieve:
    """Passes on the rows of one key, and keeps nothing: behind it, time passes without rows."""

    kind: str = "sieve"
    emits: bool = True

    def key_of(self, row: Row) -> int:
        return row[0] % KEYS

    def stores(self, key: int) -> bool:
        return False

    def update(self, old: int | None, rows: Iterable[Row]) -> int:
        return 0

    def emit(self, key: int, old: int | None, rows: Iterable[Row]) -> list[Row]:
        return list(rows) if key == 0 else []


def add_windows(world: "World", pipeline: Pipeline) -> None:
    """Windows over sources, perhaps windows of these, and sinks of what they emit and of what comes too late."""
    random = world.windows
    if random.random() >= 0.2:
        return
    sources = [vertex for vertex in pipeline.vertices if isinstance(vertex, SourceVertex)]
    for vertex in sources:
        _give_times(vertex)
        timed = EventTime("v", timedelta(microseconds=random.choice([0, 40, 150])))
        pipeline.vertices[pipeline.vertices.index(vertex)] = replace(vertex, event_time=timed)
    streams = [Stream(pipeline, vertex.name) for vertex in sources]
    read = streams if random.random() < 0.8 else streams[:1]
    if random.random() < 0.4:
        sieve = KeyedVertex("sieve", tuple(read), ("k",), update=Sieve(), state=ROWS, output=ROWS)
        read = [pipeline.add(sieve)]
    stream = _windowed(world, pipeline, "windowed", tuple(read), "v", random.choice([(100, 100), (100, 50), (90, 30)]))
    if random.random() < 0.5:
        _windowed(world, pipeline, "windows_of_windows", (stream,), "window_start", (300, 300))


def _give_times(vertex: SourceVertex) -> None:
    """Later pieces have later rows, roughly."""
    source: Any = vertex.source
    source.schema = ROWS
    for split in source.pieces:
        for number, rows in enumerate(split):
            rows[:] = [(key, value * TIMES + number * 60 + value % 150) for key, value in rows]


def _windowed(world: "World", pipeline: Pipeline, name: str, read: Any, column: str, lengths: tuple[int, int]) -> Any:
    size, slide = lengths
    window: Any = FixedWindow(column, timedelta(microseconds=size), timedelta(microseconds=slide))
    lateness = Random(f"lateness {name} {world.seed}").choice([0, 0, 0, 60, 250])
    function: Any = WindowedFunction(size, slide, lateness)
    if has_sessions(world.seed, name):
        lateness, function = 0, SessionFunction(Random(f"gap {name} {world.seed}").choice([15, 40, 90]))
        window = SessionWindow(column, timedelta(microseconds=function.gap))
    vertex = KeyedVertex(
        name,
        read,
        ("k",),
        aggregates=(("n", count()),),
        update=function,
        window=window,
        corrections=Corrections(lateness, VERSIONS) if lateness else None,
    )
    stream = pipeline.add(vertex)
    for sink_name, what in ((f"{name}_shown", stream), (f"{name}_late", stream.late)):
        if what is stream or world.windows.random() < 0.6:
            sink = make_sink(world, sink_name, SinkInput.CHANGES)
            world.sinks[sink_name] = sink
            suite = world.holding.suite() if world.holding.hold_for else None
            pipeline.add(SinkVertex(sink_name, what, sink, suite, accepted(sink)))
    return stream


class PlainWatermarks:
    """By vertex, how far it has come in event time, as the plain execution finds it. Kept in a dictionary beside the
    states, so that it goes back with them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._delays = {v.name: v.event_time.delay_micros for v in graph.sources if v.event_time is not None}

    def advance(self, known: dict[str, int], cut: Mapping[str, Sequence[Row]], ended: set[str]) -> None:
        for name, delay in self._delays.items():
            if times := [time_of(row) - delay for row in cut[name]]:
                known[name] = max(known.get(name, -TIMES), *times)
            if name in ended:
                known[name] = END_OF_TIME
        for vertex in self._graph.keyed:
            read = [known[stream.origin] for stream in vertex.inputs if stream.origin in known]
            if len(read) == len(vertex.inputs):
                known[vertex.name] = min(read)
