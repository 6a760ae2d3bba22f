"""`IcebergSink` beside pyiceberg's own `append` and `upsert`, and three tables in one commit: what `beside_pyiceberg`
starts, in a process in which nothing else runs.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import conditions
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from costs import measured
from in_commit import Watch, rows_of
from judged_tables import Tidegate
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import Engine

from tidegate import IcebergSink
from tidegate.pipeline.streams import Stream
from tidegate.ports import Participant, StageContext, StateHandle
from tidegate.postgres.engine import connect
from tidegate.postgres.participants import run
from tidegate.protocol.recovery.ownership import Owner

#: Of the table of current rows, and how many checkpoints the three tables keep.
SUBTASKS, RETAINED = 8, 5
WARM_UPS = 2
Mode = Literal["append", "latest"]
Found = dict[str, dict[str, dict[str, list[float]]]]


class ByTidegate:
    """A sink as a pipeline uses it: subtasks stage, the driver prepares, and one transaction commits."""

    def __init__(self, url: str, table: str, mode: Mode = "append", partition_by: Sequence[str] = ()) -> None:
        self.engine = connect(url)
        self.sink = IcebergSink(f"bench.{table}", mode, partition_by=partition_by).placed("bench", table)
        self.sink.mark(Owner("bench", table, "bench"))
        self.checkpoint_id = 0

    def take(self, parts: Sequence[pa.Table]) -> None:
        """A whole checkpoint of the sink, each part of the rows by a subtask of its own."""
        self.checkpoint_id += 1
        committed(self.engine, [self.sink.prepare(self.checkpoint_id, self.staged(self.checkpoint_id, parts))])

    def staged(self, id_: int, parts: Sequence[pa.Table]) -> list[StateHandle]:
        writer = self.sink.writer()
        contexts = (StageContext(id_, subtask, 1, "bench") for subtask in range(len(parts)))
        return [file for rows, context in zip(parts, contexts, strict=True) for file in writer.stage(rows, context)]


def committed(engine: Engine, participants: Sequence[Participant]) -> None:
    with engine.begin() as connection:
        run(connection, participants)


class ByPyiceberg:
    """The same catalog, by pyiceberg alone. Each call loads the table, as a program does that runs now and then."""

    def __init__(self, url: str, table: str, columns: pa.Schema) -> None:
        self.catalog = SqlCatalog(
            "tidegate",
            uri=f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dtidegate_iceberg",
            init_catalog_tables="false",
            warehouse=f"file://{os.environ['TIDEGATE_HOME']}/beside",
        )
        self.name = f"beside.{table}"
        self.catalog.create_namespace_if_not_exists("beside")
        self.catalog.create_table(self.name, columns)

    def append(self, rows: pa.Table) -> None:
        self.catalog.load_table(self.name).append(rows)

    def upsert(self, rows: pa.Table) -> None:
        self.catalog.load_table(self.name).upsert(rows, ["id"])


def appends(url: str, watch: Watch, rows: int, times: int) -> Found:
    """One file each: what one subtask stages."""
    table = rows_of(rows, rows, 1)
    own, other = ByTidegate(url, "appended"), None
    found = sides()
    for turn in range(WARM_UPS + times):
        costs = {"tidegate": cost(watch, partial(own.take, [table]))}
        other = other or ByPyiceberg(url, "appended", table.schema)
        costs["pyiceberg"] = cost(watch, partial(other.append, table))
        keep(found, costs, turn)
    return {f"append of {rows:,} rows": found}


def upserts(url: str, watch: Watch, rows: int, updates: int, times: int) -> Found:
    """`latest` writes all current rows, which the sink gets from the state of the operator; `upsert` gets the changed
    ones."""
    current = rows_of(rows, rows, 1).sort_by("id")
    own = ByTidegate(url, "latest", "latest")
    own.take(divided(current))
    other = ByPyiceberg(url, "latest", current.schema)
    other.append(current)
    found = sides()
    for turn in range(1 + times):
        changed = rows_of(updates, rows, turn + 2)
        current = updated(current, changed)
        costs = {
            "tidegate": cost(watch, partial(own.take, divided(current))),
            "pyiceberg": cost(watch, partial(other.upsert, changed)),
        }
        keep(found, costs, turn, warm_ups=1)
    return {f"{updates:,} updates in {rows:,} rows": found}


def divided(rows: pa.Table) -> list[pa.Table]:
    """The rows of each subtask, as hashing spreads them."""
    subtasks = rows["id"].to_numpy() % SUBTASKS
    return [rows.filter(pa.array(subtasks == each)) for each in range(SUBTASKS)]


def updated(current: pa.Table, changed: pa.Table) -> pa.Table:
    """`current` is sorted by id and has each number from 0 on once."""
    source = np.arange(current.num_rows)
    source[changed["id"].to_numpy()] = current.num_rows + np.arange(changed.num_rows)
    return pa.concat_tables([current, changed]).take(pa.array(source)).combine_chunks()


def whole(home: Path, server: int, rows: int, updates: int, times: int) -> dict[str, list[float]]:
    """The same updates as whole checkpoints of a pipeline, from trigger to notify, with Spark."""
    conditions.ask("serial", quick=False)
    landing = home / "landing"
    landing.mkdir()
    side = Tidegate(home, "whole", tables=False, more=with_table)
    costs = []
    for turn in range(WARM_UPS + 1 + times):
        keys = rows_of(updates if turn else rows, rows, turn)["id"]
        pq.write_table(pa.table({"key": keys, "value": keys}), landing / f"{turn}.parquet")
        costs.append(measured(partial(side.take, turn), server))
    side.region.session.stop()
    seconds, processors = zip(*costs[WARM_UPS + 1 :], strict=True)
    return {"seconds": list(seconds), "processors": list(processors)}


def with_table(totals: Stream, home: Path) -> None:
    totals.sink("current", IcebergSink("bench.current", "latest", str(home / "warehouse")))


def together(url: str, checkpoints: int, times: int) -> Found:
    """A thousand rows into each of three tables in one commit, of which few checkpoints are kept: the first checkpoint
    of some sets of tables, and the last ones of one set."""
    found: Found = {}
    for time_ in range(times):
        tables = [
            ByTidegate(url, f"appended_{time_}"),
            ByTidegate(url, f"latest_{time_}", "latest"),
            ByTidegate(url, f"partitioned_{time_}", partition_by=["bucket(4, id)"]),
        ]
        note(found, 1, steps_of(tables, 1))
    for id_ in range(2, checkpoints + 1):
        taken = steps_of(tables, id_)
        if id_ > checkpoints - times:
            note(found, checkpoints, taken)
    return found


def note(found: Found, checkpoint_id: int, taken: dict[str, list[float]]) -> None:
    for name, (seconds, processors) in taken.items():
        of = found.setdefault(f"three tables in one commit, checkpoint {checkpoint_id}: {name}", {"tidegate": {}})
        of["tidegate"].setdefault("seconds", []).append(seconds)
        of["tidegate"].setdefault("processors", []).append(processors)


def steps_of(tables: Sequence[ByTidegate], id_: int) -> dict[str, list[float]]:
    """Seconds by the clock, and of this process's processor time, of each step."""
    rows, found = rows_of(1000, 1000, id_), {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        began, processor = time.perf_counter(), time.process_time()
        yield
        found[name] = [time.perf_counter() - began, time.process_time() - processor]

    with step("files of rows"):
        staged = [table.staged(id_, [rows]) for table in tables]
    with step("metadata"):
        participants = [table.sink.prepare(id_, files) for table, files in zip(tables, staged, strict=True)]
    with step("transaction"):
        committed(tables[0].engine, participants)
    with step("deletion of released files"):
        for table in tables:
            table.sink.forget(range(max(1, id_ - RETAINED + 1), id_ + 1))
    return found


def sides() -> dict[str, dict[str, list[float]]]:
    return {side: {"seconds": [], "processors": []} for side in ("tidegate", "pyiceberg")}


def cost(watch: Watch, what: Callable[[], None]) -> tuple[float, float]:
    began = time.perf_counter()
    processors = watch.measure(what)
    return time.perf_counter() - began, processors


def keep(
    found: dict[str, dict[str, list[float]]], costs: dict[str, tuple[float, float]], turn: int, warm_ups: int = WARM_UPS
) -> None:
    if turn < warm_ups:
        return
    for side, (seconds, processors) in costs.items():
        found[side]["seconds"].append(seconds)
        found[side]["processors"].append(processors)


def main() -> None:
    """The arguments are the directory to work in, the process of Postgres, and rows, updates, times and checkpoints as
    JSON. The last line that is printed is JSON: the series, and the process's peak memory in bytes."""
    home, server = Path(sys.argv[1]), int(sys.argv[2])
    rows, updates, times, checkpoints = json.loads(sys.argv[3])
    url, watch = os.environ["TIDEGATE_DATABASE_URL"], Watch(server)
    series = {**appends(url, watch, rows, times), **upserts(url, watch, rows, updates, max(3, times // 2))}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    [*_, what] = series
    of_pipeline = {**series[what], "tidegate": whole(home, server, rows, updates, max(3, times // 2))}
    series[f"{what}, the whole checkpoint with Spark"] = of_pipeline
    print(json.dumps({"series": {**series, **together(url, checkpoints, max(3, times // 2))}, "peak": peak}))


if __name__ == "__main__":
    main()
