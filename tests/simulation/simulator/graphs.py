"""Random pipelines: chains, fan-in and fan-out of keyed operators, whose functions are plain Python over (key, value),
and of steps that draw another key for each row.

An operator's function sees all rows of a checkpoint for a key at once and must not depend on their order, as on Spark.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator import upserting
from simulator.expiring import draw_ttl
from simulator.in_the_commit import accepted
from simulator.rollup import draw_history
from simulator.sources import DirectorySource, LogSource, Row, SimulatedSource
from simulator.topic_sinks import has_topics, with_more
from simulator.topic_sources import TopicSource, is_topic
from simulator.versions import VersionsSource, is_versioned
from simulator.windowed import add_windows
from tidegate.pipeline.config import CheckpointConfig, CheckpointRetention
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import SinkInput

if TYPE_CHECKING:
    from simulator.world import World

PIPELINE_ID = "simulated"
Change = Callable[[Any], Any]  # of a vertex
STATE = "k bigint, v bigint"
KEYS = 12
MODULUS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """What an operator does with the rows of a key. `digest` depends on which rows came together, and on the order of
    checkpoints: it notices what a sum would forgive."""

    kind: str
    factor: int
    shift: int
    emits: bool = False
    removes: bool = False

    def key_of(self, row: Row) -> int:
        return (row[0] * self.factor + self.shift) % KEYS

    def update(self, old: int | None, rows: Iterable[Row]) -> int:
        """0 of a key that is removed."""
        value = self._updated((old or None) if self.removes else old, rows)
        return 0 if self.removes and value % 3 == 0 else value

    def _updated(self, old: int | None, rows: Iterable[Row]) -> int:
        values = [value for _, value in rows]
        match self.kind:
            case "count":
                return (old or 0) + len(values)
            case "sum":
                return ((old or 0) + sum(values)) % MODULUS
            case "largest":
                return max(values) if old is None else max(old, *values)
            case "dated":  # a row may become older than it was
                return max(values) % 1000
            case _:
                return ((old or 1) * 31 + sum(value * value + 7 for value in values)) % MODULUS

    def stores(self, key: int) -> bool:
        """An operator that emits may do so and change no state."""
        return not self.emits or key % 4 != 0

    def emit(self, key: int, old: int | None, rows: Iterable[Row]) -> list[Row]:
        """A row for each that came, perhaps of another key, which tells what was known of its own."""
        return [((key + value) % KEYS, ((old or 0) * 3 + value) % MODULUS) for _, value in rows]


def draw_pipeline(world: "World", random: Random) -> Pipeline:
    """One or two sources, perhaps steps, one to four operators, at least one sink."""
    config = CheckpointConfig(
        timeout=timedelta(seconds=random.choice([30, 120, 600])),
        min_pause=timedelta(seconds=random.choice([0, 0, 20, 300])),
        retained=random.choice([1, 2, 3, 5] if world.temper.restore else [1, 1, 2, 3]),
        retention=random.choice(list(CheckpointRetention)),
        tolerable_failed_checkpoints=random.choice([None, None, 0, 2]),
        undo_within=timedelta(seconds=random.choice([0, 60, 600, 7 * 24 * 3600])),
        history=draw_history(world.seed),
        max_concurrent=Random(f"at once {world.seed}").choice([1, 3]),  # which a scheduled run takes no notice of
    )
    pipeline = Pipeline(PIPELINE_ID, random.choice([1, 1, 2, 3]), random.choice([4, 8, 11]), config)
    emitting = world.emitting if world.emitting.random() < (0.3 if pipeline.parallelism > 1 else 0.1) else None
    expires = world.expiring.random() < 0.5
    streams = [
        pipeline.source(f"source{number}", _draw_source(world, random, number))
        for number in range(random.choice([1, 1, 2]))
    ]
    for number in range(random.choice([1, 1, 2, 2, 3, 4])):
        if random.random() < 0.2:
            streams.append(random.choice(streams).transform(_redrawn, deterministic=False, name=f"step{number}"))
            if random.random() < 0.7:
                _draw_sink(world, random, streams[-1])
        inputs = random.sample(streams, min(len(streams), random.choice([1, 1, 2, 3])))
        function = KeyedFunction(
            random.choice(["count", "sum", "largest", "digest"]),
            random.choice([1, 5, 7]),
            random.randrange(KEYS),
            emitting is not None and emitting.random() < 0.8,
            upserting.is_drawn(world.seed),
        )
        output = STATE if function.emits else None
        lives = draw_ttl(world, world.expiring) if expires else {}
        function = replace(function, kind="dated") if "ttl_by" in lives else function
        declare = pipeline.keyed(f"operator{number}", inputs=inputs, key=["k"], state=STATE, output=output, **lives)
        streams.append(declare(function))
        if random.random() < 0.5 or function.emits:
            _draw_sink(world, random, streams[-1])
    if not world.sinks or random.random() < 0.2:
        _draw_sink(world, random, random.choice(streams))
    add_windows(world, pipeline)
    return pipeline


def _redrawn(rows: list[Row]) -> list[Row]:
    raise AssertionError("the simulated region draws by itself")


def rebuilt(
    pipeline: Pipeline,
    change: Change = lambda vertex: vertex,
    parallelism: int | None = None,
    max_parallelism: int | None = None,
    name: str = "",
) -> Pipeline:
    """The same pipeline in other words: with vertices that `change` has made, other numbers of subtasks, or another
    name."""
    result = Pipeline(
        name or pipeline.name,
        parallelism or pipeline.parallelism,
        max_parallelism or pipeline.max_parallelism,
        pipeline.checkpoints,
    )
    made: dict[str, str] = {}

    def to(stream: Stream) -> Stream:
        return replace(stream, pipeline=result, origin=made[stream.origin])

    for before in pipeline.vertices:
        vertex = change(before)
        made[before.name] = vertex.name
        match vertex:
            case KeyedVertex():
                result.add(replace(vertex, inputs=tuple(map(to, vertex.inputs))))
            case StepVertex() | SinkVertex():
                result.add(replace(vertex, input=to(vertex.input)))
            case _:
                result.add(vertex)
    return result


def _draw_source(world: "World", random: Random, number: int) -> SimulatedSource:
    pieces = [
        [
            [(random.randrange(KEYS), random.randrange(1000)) for _ in range(random.randint(1, 4))]
            for _ in range(random.randint(2, 10))
        ]
        for _ in range(random.choice([1, 2, 2, 3]))
    ]
    kind, pieces = random.choice([LogSource, DirectorySource]), with_more(world.seed, number, pieces)
    limit, is_bounded = random.choice([None, None, 3]), random.random() < 0.3
    if is_versioned(world.seed, number):
        kind, pieces, is_bounded = VersionsSource, pieces[:1], False
    elif is_topic(world.seed, number):
        kind, is_bounded = TopicSource, False
    source = kind(world, f"source{number}", pieces, 2 if has_topics(world.seed) else limit)
    source.bounded = is_bounded
    world.sources[f"source{number}"] = source
    return source


def _draw_sink(world: "World", random: Random, stream: Stream) -> None:
    (origin,) = (vertex for vertex in stream.pipeline.vertices if vertex.name == stream.origin)
    current = isinstance(origin, KeyedVertex) and random.random() < 0.5 and not origin.emits
    name = f"sink{len(world.sinks)}"
    input = SinkInput.CURRENT if current else SinkInput.CHANGES
    sink = upserting.make_sink(world, name, upserting.draw_input(world.seed, name, origin, input))
    world.sinks[name] = sink
    suite = world.holding.suite() if random.random() < 0.6 or world.holding.hold_for else None
    stream.sink(name, sink, suite, accepted(sink))


def describe(world: "World") -> list[str]:
    """The pipeline in a few lines."""
    pipeline, config = world.pipeline, world.pipeline.checkpoints
    return [
        f"Pipeline: parallelism {pipeline.parallelism} of {pipeline.max_parallelism} key groups, timeout "
        f"{config.timeout}, min pause {config.min_pause}, {config.retained} retained, undo within "
        f"{config.undo_within}",
        *(
            f"  {name}: {type(source).__name__}, {source.num_splits()} splits{', bounded' if source.bounded else ''}"
            for name, source in world.sources.items()
        ),
        *(
            f"  {vertex.name}: drawn from {vertex.input.origin}"
            for vertex in world.graph.producers
            if isinstance(vertex, StepVertex)
        ),
        *(
            f"  {vertex.name}: {vertex.update.kind} of {', '.join(stream.origin for stream in vertex.inputs)}"
            f"{', emits' if vertex.emits else ''}{f', rows expire {vertex.ttl}' if vertex.ttl else ''}"
            for vertex in world.graph.keyed
        ),
        *(
            f"  {vertex.name}: {vertex.sink.input} of {vertex.input.origin}{', judged' if vertex.expect else ''}, "
            f"{vertex.sink.commits}"
            for vertex in world.graph.sinks
        ),
    ]
