"""`make bench-pages`: how long pages take with 1,000 pipelines and 100,000 checkpoints of 64 subtasks in the database.

    python benchmarks/pages.py [--pipelines N] [--checkpoints N] [--times N] [--browsers N] [-o json] [--directory DIR]

Of each page and each route of the API: the slowest statement and the whole answer, without login and network, the
median of several. Then what one browser and many cost a server while a pipeline changes. Figures go to stdout, progress
to stderr. The exit code is 1 if a statement took longer than 100 ms, or an answer longer than a second.
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
from browsers import Watched, watch
from many_checkpoints import LARGE, fill
from page_app import Everybody, addresses
from rich.console import Console
from rich.table import Table
from run import database
from sqlalchemy import Engine, event

from tidegate.clock import SystemClock
from tidegate.postgres.engine import connect
from tidegate.reading.readings import Readings
from tidegate.state.stored import StoredState
from tidegate.ui.app import create_app

#: Milliseconds that no statement may take, and no answer.
BOUND, ANSWER_BOUND = 100.0, 1000.0


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
            page = f"/pipelines/{LARGE}/checkpoints/{last - 2}"
            watched = [watch(found.url, page, number, commits=20) for number in (1, options.browsers)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.output == "json":
        described = {"machine": machine.describe(), "filled": filled}
        figures = {"routes": [asdict(each) for each in measured], "browsers": [asdict(each) for each in watched]}
        print(json.dumps(described | figures, indent=1))
    else:
        show(measured, filled)
        show_watched(watched)
    return int(any(each.slowest > BOUND or each.answer > ANSWER_BOUND for each in measured))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=100_000, help="of all pipelines, each of 64 subtasks")
    parser.add_argument("--times", type=int, default=9, help="how often each route is asked")
    parser.add_argument("--browsers", type=int, default=50, help="how many look at one page at once")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work (default: temporary)")
    return parser.parse_args(arguments)


async def measure(engine: Engine, last: int, times: int) -> list[Measured]:
    with tempfile.TemporaryDirectory() as storage:
        stored = StoredState(storage, None)
        app = create_app(
            Path(storage),
            lambda: Readings(engine, SystemClock().now, stored.open, stored),
            Everybody(),
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bench") as client:
            return [await _measure(engine, client, address, times) for address in addresses(app, last)]


async def _measure(engine: Engine, client: httpx.AsyncClient, route: str, times: int) -> Measured:
    slowest, answers, counts, size = [], [], 0, 0
    for number in range(times + 1):
        with _statements(engine) as taken:
            started = time.perf_counter()
            response = await client.get(route, timeout=120)
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
        later = "[bold red]" if each.answer > ANSWER_BOUND else ""
        row = f"{each.statements}", f"{late}{each.slowest:.1f} ms", f"{later}{each.answer:.1f} ms", f"{each.bytes:,}"
        table.add_row(each.route, *row)
    Console(width=140).print(table)


def show_watched(watched: list[Watched]) -> None:
    table = Table(
        "Browsers", "Commits", "Pages", "Processor a commit", "Commit to page", "Longest", "Connections", "Listening"
    )
    for each in watched:
        table.add_row(
            f"{each.browsers}", f"{each.commits}", f"{each.pages}", f"{each.processor:.0f} ms", f"{each.median:.0f} ms",
            f"{each.longest:.0f} ms", f"{each.connections}", f"{each.listening}",
        )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
