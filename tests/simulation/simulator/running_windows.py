"""Windows in a simulated continuous run, over the rows of the first log.

How rows fall into micro-batches is not fixed, and so neither is which are late. But of a checkpoint that holds all that
was read, three things are: how far the operator has come, what is open, and that each row of an ended window counted or
was late, once. What holds for sessions is in `running_sessions`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.running_hours import SIZE, Hours, Row, end_of, place_of, time_of
from simulator.running_in_the_commit import make_table
from simulator.running_sessions import LogSessions
from simulator.scheduler import require
from simulator.sessions import has_sessions
from tidegate.pipeline.aggregates import count
from tidegate.pipeline.corrections import VERSIONS, Corrections
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.pipeline.windows import EventTime, FixedWindow
from tidegate.ports import SinkInput
from tidegate.protocol.facts.records import Snapshot, SubtaskId
from tidegate.protocol.steps.watermarks import END_OF_TIME

if TYPE_CHECKING:
    from simulator.running import Running

WINDOWED, SHOWN, LATE_TABLE = "hours", "hours_shown", "hours_late"
#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the windows that they always drew.
_SALT = 1322


def draw_windows(world: "Running") -> bool:
    """Whether there are any. In some of these runs splits end while their last rows are still on the way, and unaligned
    barriers overtake those. Only then does data come between an operator's snapshot and the end of its alignment: what
    has ended sends no barrier any more, and nobody overtakes its end."""
    if world.windows.random() >= 0.2:
        return False
    aside = Random(f"splits that end {world.seed}")
    if aside.random() < 0.5:
        first = world.sources[0]
        first.lengths = [aside.randint(2, 8), aside.randint(2, 8), aside.randint(2, 8), aside.randint(10, 20)]
        first.arrived = [0] * len(first.lengths)
        first.bounded, first.step = True, 1
        world.config = replace(world.config, mode="EXACTLY_ONCE", unaligned=True, alignment_limit=None)
    return True


def add_windows(world: "Running", pipeline: Pipeline) -> None:
    random = world.windows
    first = pipeline.vertices[0]
    first.source.schema = "k bigint, split bigint, at timestamp"
    delay = random.choice([0, 40, 100])
    window: Any = FixedWindow("at", timedelta(microseconds=SIZE), timedelta(microseconds=SIZE))
    function: Any = Hours(Random(f"lateness of logs {_SALT} {world.seed}").choice([0, 0, 0, 30, 80]))
    if has_sessions(world.seed, WINDOWED):
        aside = Random(f"sessions of logs {world.seed}")
        delay, function = aside.choice([0, 0, 20]), LogSessions(aside.choice([10, 15, 20, 30]))
        window = SessionWindow("at", timedelta(microseconds=function.gap))
    delay = 0 if isinstance(function, Hours) and function.lateness else delay
    timed = EventTime("at", timedelta(microseconds=delay))
    pipeline.vertices[0] = type(first)(first.name, first.source, event_time=timed)
    read = (Stream(pipeline, first.name),)
    vertex = KeyedVertex(WINDOWED, read, ("k",), aggregates=(("n", count()),), update=function, window=window)
    if isinstance(function, Hours) and function.lateness:
        vertex = replace(vertex, corrections=Corrections(function.lateness, VERSIONS))
    hours = pipeline.add(vertex)
    for name, stream in ((SHOWN, hours), (LATE_TABLE, hours.late)):
        pipeline.add(SinkVertex(name, stream, make_table(world, name, SinkInput.CHANGES)))


def check_windows(
    world: "Running", what: str, snapshots: Mapping[SubtaskId, Snapshot], state: Mapping[int, int], rows: Sequence[Row]
) -> int | None:
    """A checkpoint in which the operator has read `rows`: how far it has come, and which windows are in state. Returns
    the watermark."""
    source = next(v for v in world.graph.sources if v.name == world.sources[0].name)
    assert source.event_time is not None
    watermark = max((time_of(row) - source.event_time.delay_micros for row in rows), default=None)
    if snapshots[SubtaskId(WINDOWED, 0)].finished:
        watermark = END_OF_TIME
    position = snapshots[SubtaskId(WINDOWED, 0)].position or {}
    found = position.get("watermarks", {}).get(source.name)
    require(found == watermark, f"{what}: {WINDOWED} has come to {found}, and should have to {watermark}")
    function = _function(world)
    if isinstance(function, LogSessions):
        function.check_open(what, state, rows, watermark)
        return watermark
    all_rows = Counter(map(place_of, rows))
    gone = watermark if watermark in (None, END_OF_TIME) else watermark - function.lateness
    is_open = {place: n for place, n in all_rows.items() if gone is None or end_of(place) > gone}
    still = {place: n for place, n in state.items() if n}
    require(still == is_open, f"{what}: open in {WINDOWED} is {still}, and should be {is_open}")
    return watermark


def check_shown(world: "Running", watermark: int, state: Mapping[int, int], rows: Sequence[Row]) -> None:
    """In the end each row of a window that has ended was counted once, or is late. The last number of a window counts,
    and none is shown twice."""
    shown, late = (_rows_of(world, name) for name in (SHOWN, LATE_TABLE))
    function = _function(world)
    if isinstance(function, LogSessions):
        function.check_shown(shown, late, state, watermark, rows)
        return
    again = (lambda each: each) if function.lateness else (lambda each: each[0])
    twice = [each for each, times in Counter(map(again, shown)).items() if times > 1]
    require(not twice, f"the windows {twice} are shown twice")
    counted = Counter(dict(sorted(shown))) + Counter(place_of((split, at)) for split, at in late)
    ended = Counter(place_of(row) for row in rows if end_of(place_of(row)) <= watermark)
    require(counted == ended, f"windows and late rows show {counted}, and should {ended}")


def _function(world: "Running") -> Any:
    return next(vertex.update for vertex in world.graph.keyed if vertex.name == WINDOWED)


def _rows_of(world: "Running", name: str) -> list[tuple[int, int]]:
    table: Any = next(sink.sink for sink in world.graph.sinks if sink.name == name)
    return [tuple(row) for files in table.visible.values() for rows in files for row in rows]
