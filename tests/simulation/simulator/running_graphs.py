"""Random pipelines that run continuously: logs, operators that count and compare, a step that draws, and tables."""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.graphs import rebuilt
from simulator.running_emitting import EMITTED_TO, Numbers
from simulator.running_expiring import add_expiring
from simulator.running_in_the_commit import make_table
from simulator.running_log import Log
from simulator.running_parts import TICKETS, Counts, Peaks, redrawn
from simulator.running_ports import NAME
from simulator.running_windows import add_windows
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import SinkInput

if TYPE_CHECKING:
    from simulator.running import Running


EMITTED = "k bigint, i bigint"


def draw_source(random: Random, number: int) -> Log:
    lengths = [random.randint(2, 20) for _ in range(random.randint(1, 3))]
    return Log(f"log{number}", lengths, random.random() < 0.4, random.randint(1, 4), [0] * len(lengths))


def with_rules(world: "Running", pipeline: Pipeline) -> Pipeline:
    """With rules that hold, every table is judged; otherwise none is."""
    if world.holding.hold_for is None:
        return pipeline
    judged = world.holding.suite()
    return rebuilt(
        pipeline, lambda vertex: replace(vertex, expect=judged) if isinstance(vertex, SinkVertex) else vertex
    )


def draw_config(random: Random, aside: Random) -> CheckpointConfig:
    exactly_once, unaligned = random.random() < 0.75, random.random() < 0.4
    return CheckpointConfig(
        timeout="5 min",
        retained=random.randint(1, 3),
        interval=random.choice([None, "3 s", "30 s"]),
        min_pause=random.choice(["0 s", "0 s", "10 s"]),
        mode="EXACTLY_ONCE" if exactly_once else "AT_LEAST_ONCE",
        unaligned=exactly_once and unaligned,
        undo_within=aside.choice(["7 d", "7 d", "1 min"]),
        alignment_limit=4 if exactly_once and not unaligned and random.random() < 0.3 else None,
    )


def draw_pipeline(world: "Running") -> Pipeline:
    random = world.random
    pipeline = Pipeline(NAME, random.randint(1, 3), 8, world.config)
    streams = [pipeline.source(source.name, source) for source in world.sources]
    if random.random() < 0.5:
        pipeline.add(SinkVertex("seen", streams[0], make_table(world, "seen", SinkInput.CHANGES)))
    if random.random() < 0.4:
        drawn = streams[0].transform(redrawn, deterministic=False, name="drawn")
        for name in TICKETS:
            pipeline.add(SinkVertex(name, drawn, make_table(world, name, SinkInput.CHANGES)))
        streams += [drawn] if random.random() < 0.6 else []
    operators: list[Any] = []
    upserting = Random(f"upserts running {world.seed}")
    draws_upserts = upserting.random() < 0.2
    for number in range(random.randint(1, 4)):
        reads_logs = not operators or random.random() < 0.4
        among = streams if reads_logs else operators
        read = tuple(random.sample(among, random.randint(1, min(2, len(among)))))
        rule: Any = Counts() if reads_logs else Peaks()
        operator = pipeline.add(KeyedVertex(f"op{number}", read, ("k",), update=rule, state="k bigint, n bigint"))
        for kind in (SinkInput.CHANGES, SinkInput.CURRENT):
            if random.random() < 0.5:
                name = f"op{number}_{kind.value.lower()}"
                pipeline.add(SinkVertex(name, operator, make_table(world, name, kind)))
        if upserting.random() < 0.6 * draws_upserts:
            name = f"op{number}_upserts"
            pipeline.add(SinkVertex(name, operator, make_table(world, name, SinkInput.UPSERTS)))
        operators.append(operator)
    if world.emitting.random() < 0.3:
        _emit(world, pipeline, streams[0])
    if world.has_windows:
        add_windows(world, pipeline)
    add_expiring(world, pipeline)
    return pipeline


def _emit(world: "Running", pipeline: Pipeline, rows: Any) -> None:
    """An operator that numbers rows and emits them, a table of these, and perhaps an operator that counts them."""
    numbers = KeyedVertex("numbers", (rows,), ("k",), update=Numbers(), state="k bigint, n bigint", output=EMITTED)
    emitted = pipeline.add(numbers)
    pipeline.add(SinkVertex(EMITTED_TO, emitted, make_table(world, EMITTED_TO, SinkInput.CHANGES)))
    if world.emitting.random() < 0.6:
        counted = KeyedVertex("numbers_counted", (emitted,), ("k",), update=Counts(), state="k bigint, n bigint")
        current = make_table(world, "numbers_current", SinkInput.CURRENT)
        pipeline.add(SinkVertex("numbers_current", pipeline.add(counted), current))
