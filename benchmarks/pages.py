"""`make bench-pages`: what each page asks of a database of 1,000 pipelines and 100,000 checkpoints of 64 subtasks.

    python benchmarks/pages.py [--pipelines N] [--checkpoints N] [--times N] [-o json] [--directory DIR]

Of each route of the API: the slowest statement and the whole answer, without login and network, the median of several.
Figures go to stdout, progress to stderr. The exit code is 1 if a statement took longer than 100 ms.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import machine
from fastapi import FastAPI
from many_checkpoints import LARGE, fill
from rich.console import Console
from rich.table import Table
from run import database
from sqlalchemy import Engine, event

from tidegate.clock import SystemClock
from tidegate.postgres.engine import connect
from tidegate.reading.readings import Readings
from tidegate.state.stored import StoredState
from tidegate.ui.api import PREFIX, api_routes
from tidegate.ui.asking import Asking
from tidegate.ui.auth import readable_dags

#: Milliseconds that no statement may take.
BOUND = 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians, in milliseconds."""

    route: str
    statements: int
    slowest: float
    answer: float
    bytes: int


def main() -> int:
    options = parse(sys.argv[1:])
    console = Console(stderr=True)
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    try:
        with database(directory) as found:
            engine = connect(found.url)
            started = time.monotonic()
            last = fill(engine, options.pipelines, options.checkpoints, lambda said: console.print(said, style="dim"))
            filled = time.monotonic() - started
            measured = asyncio.run(measure(engine, last, options.times))
            engine.dispose()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.output == "json":
        described = {"machine": machine.describe(), "filled": filled}
        print(json.dumps(described | {"routes": [asdict(each) for each in measured]}, indent=1))
    else:
        show(measured, filled)
    return int(any(each.slowest > BOUND for each in measured))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=100_000, help="of all pipelines, each of 64 subtasks")
    parser.add_argument("--times", type=int, default=9, help="how often each route is asked")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work (default: temporary)")
    return parser.parse_args(arguments)


def routes(last: int) -> list[str]:
    """Of the pipeline with the most checkpoints. A search that finds nothing has looked at everything."""
    large, newest = f"/pipelines/{LARGE}", last - 2
    return [
        "/pipelines",
        "/pipelines?text=pipeline-99",
        large,
        f"{large}/checkpoints",
        f"{large}/checkpoints/{newest}",
        f"{large}/checkpoints/{newest}/subtasks/totals",
        f"{large}/checkpoints/{newest}/files",
        f"{large}/checkpoints/{newest}/verdicts",
        f"{large}/history",
        f"{large}/history?before={newest // 2}",
        f"{large}/history?status=FAILED",
        f"{large}/history?status=HELD&status=ABANDONED",
        f"{large}/history?kind=SAVEPOINT",
        f"{large}/history?kind=SYNC_SAVEPOINT",
        f"{large}/history?text=change 4",
        f"{large}/history?text=nothing like it",
        f"{large}/history?since=2020-01-01T00:00:00Z&until=2020-02-01T00:00:00Z",
        f"{large}/series",
        f"{large}/series?since=2020-01-01T00:00:00Z",
        f"{large}/sources",
        f"{large}/state",
        f"{large}/tables",
        f"{large}/quality",
        f"{large}/quality?target=sink:out&suite=suite-1",
        f"{large}/checkpoints/config",
    ]


async def measure(engine: Engine, last: int, times: int) -> list[Measured]:
    app = FastAPI()
    app.include_router(api_routes)
    with tempfile.TemporaryDirectory() as storage:
        stored = StoredState(storage, None)
        app.state.asking = Asking(lambda: Readings(engine, SystemClock().now, stored.open, stored))
        dags = frozenset(f"dag-of-pipeline-{number}" for number in range(1000))
        app.dependency_overrides[readable_dags] = lambda: dags
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bench") as client:
            return [await _measure(engine, client, route, times) for route in routes(last)]


async def _measure(engine: Engine, client: httpx.AsyncClient, route: str, times: int) -> Measured:
    slowest, answers, counts, size = [], [], 0, 0
    for number in range(times + 1):
        with _statements(engine) as taken:
            started = time.perf_counter()
            response = await client.get(f"{PREFIX}{route}", timeout=120)
            answer = time.perf_counter() - started
        if response.status_code != 200:
            raise SystemExit(f"{route}: {response.status_code} {response.text[:500]}")
        if number:  # the first one fills caches
            slowest.append(max(taken))
            answers.append(answer)
            counts, size = len(taken), len(response.content)
    return Measured(route, counts, statistics.median(slowest) * 1000, statistics.median(answers) * 1000, size)


@contextmanager
def _statements(engine: Engine) -> Iterator[list[float]]:
    """How long each statement took, with its rows fetched by the driver."""
    taken: list[float] = []
    started: list[float] = []

    def before(*_: Any) -> None:
        started.append(time.perf_counter())

    def after(*_: Any) -> None:
        taken.append(time.perf_counter() - started.pop())

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    try:
        yield taken
    finally:
        event.remove(engine, "before_cursor_execute", before)
        event.remove(engine, "after_cursor_execute", after)


def show(measured: list[Measured], filled: float) -> None:
    table = Table("Route", "Statements", "Slowest", "Answer", "Size", title=f"Filled in {filled:.0f} s")
    for each in measured:
        late = "[bold red]" if each.slowest > BOUND else ""
        row = f"{each.statements}", f"{late}{each.slowest:.1f} ms", f"{each.answer:.1f} ms", f"{each.bytes:,}"
        table.add_row(each.route, *row)
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
