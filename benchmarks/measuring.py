"""Runs both engines over the same workload, one after the other, and gathers what they measured.

Each engine's session is a process of its own: one that loads and takes the epochs, and after it one that restarts.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conditions
from costs import Cost
from process_tree import MemorySampler
from session import Session, marks
from sqlalchemy import NullPool, create_engine, text
from workload import Workload, differences, totals_of

#: Epochs with tables that count. Small ones vary by a fifth, and what tables add to one is little more than that.
SMALL_JUDGED, LARGE_JUDGED, MANY = 30, 10, 1_000_000
ENGINES = {"tidegate": "tidegate_engine.py", "streaming": "streaming_engine.py"}


@dataclass(frozen=True, slots=True)
class Database:
    """The Postgres that Tidegate's side uses; its processes count as Tidegate's."""

    url: str
    process: int


def measure(workload: Workload, directory: Path, database: Database) -> dict[str, Any]:
    """Everything both engines measured at one number of keys. Raises `RuntimeError` where a total is wrong."""
    data = directory / "data" / workload.name
    workload.write(data)
    expected = workload.totals()
    result: dict[str, Any] = {"keys": workload.keys, "shape": workload.shape}
    for engine in ENGINES:
        root = directory / f"{engine}-{workload.name}"
        root.mkdir()
        result[engine] = measure_engine(engine, workload, (data, root), expected, database)
    return result


def measure_engine(
    engine: str, workload: Workload, places: tuple[Path, Path], expected: dict[str, Any], database: Database
) -> list[dict[str, Any]]:
    """The epochs of one engine. `places` are the files of events, and where it works."""
    data, root = places
    also = (database.process,) if engine == "tidegate" else ()
    sessions = [Session(workload, restarted, data, root, also) for restarted in (False, True)]
    epochs = [epoch for session in sessions for epoch in run_session(engine, session, database)]
    check(engine, workload.keys, differences(expected, totals_of(sessions[0].totals)))
    return epochs


def check(engine: str, keys: int, problems: list[str]) -> None:
    if problems:
        raise RuntimeError(f"{engine} is wrong at {keys:,} keys: {'; '.join(problems)}")
    print(f"  {engine}: totals of all {keys:,} keys are exact", file=sys.stderr, flush=True)


def run_session(engine: str, session: Session, database: Database) -> list[dict[str, Any]]:
    """The epochs of one process, with the peak memory of each and the moment since the process's start."""
    began = time.monotonic()
    process = start(ENGINES[engine], session.to_json(), session.root, database)
    with MemorySampler(process.pid, *session.also) as sampler:
        if finished(process) != 0:
            raise RuntimeError(f"The process of {engine} failed; see {session.root / 'log'}")
    epochs = [found for found in marks(session) if found["phase"] != "done"]
    # Until the next one begins: an epoch may be shorter than the time between two samples.
    until = [*(epoch["begin"] for epoch in epochs[1:]), epochs[-1]["end"]]
    for epoch, end in zip(epochs, until, strict=True):
        epoch["memory"] = sampler.peak(epoch["begin"], end)
        epoch["since_start"] = epoch["end"] - began
    return epochs


def start(script: str, argument: str, root: Path, database: Database, *more: str) -> "subprocess.Popen[bytes]":
    """A process of this directory's scripts; what it prints goes to a log."""
    environment = {**os.environ, "TIDEGATE_DATABASE_URL": database.url, "TIDEGATE_HOME": str(root)}
    command = [sys.executable, str(Path(__file__).parent / script), argument, *more]
    with (root / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def finished(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a process; an interrupted run leaves none behind. Its JVM ends with it."""
    try:
        return process.wait()
    finally:
        process.terminate()


def fixed_cost(directory: Path, database: Database) -> list[float]:
    """Seconds of each checkpoint that had nothing to process."""
    root = directory / "fixed-cost"
    root.mkdir()
    seconds: list[float] = answered("fixed_cost.py", str(root), root, database)
    return seconds


def emitting(directory: Path, database: Database) -> list[list[float]]:
    """Seconds of each epoch of an operator that emits nothing, and of one that emits."""
    root = directory / "emitting"
    root.mkdir()
    seconds: list[list[float]] = answered("emitted_rows.py", str(root), root, database)
    return seconds


def expiring(directory: Path, database: Database) -> list[list[float]]:
    """Seconds of each epoch of aggregates that live for ever, and of those that expire."""
    root = directory / "expiring"
    root.mkdir()
    seconds: list[list[float]] = answered("expiring_state.py", str(root), root, database)
    return seconds


def windowed(directory: Path, database: Database) -> dict[str, list[Cost]]:
    """What each epoch of a windowed count costs, by engine. Raises `RuntimeError` if the windows differ."""
    found = {
        engine: _of("windowed_counts.py", directory / f"windowed-{engine}", engine, database) for engine in ENGINES
    }
    ours, theirs = (found[engine]["shown"] for engine in ENGINES)
    if ours != theirs or not all(ours):
        raise RuntimeError(f"Windows and rows in them are {ours} of Tidegate, and {theirs} of Structured Streaming")
    return {engine: each["costs"] for engine, each in found.items()}


def written(shape: str, directory: Path, database: Database) -> dict[str, Any]:
    """What each epoch of a shape that people write costs, by engine. Raises `RuntimeError` if their rows differ."""
    roots = {engine: directory / f"shape-{engine}" for engine in ENGINES}
    found = {engine: _of("written_shapes.py", root, engine, database, shape) for engine, root in roots.items()}
    ours, theirs = (found[engine]["shown"] for engine in ENGINES)
    if ours != theirs or not all(ours):
        raise RuntimeError(f"{shape}: rows and their sum are {ours} of Tidegate, {theirs} of Structured Streaming")
    for root in roots.values():
        shutil.rmtree(root)
    return {"shape": shape, **{engine: found[engine]["costs"] for engine in ENGINES}}


def judged(keys: int, directory: Path, database: Database) -> dict[str, Any]:
    """What each epoch costs, by number of events: on Tidegate without tables and with judged ones, and on Structured
    Streaming with these. Raises `RuntimeError` if the tables differ."""
    workload = json.dumps([keys, *conditions.repetitions(3, SMALL_JUDGED if keys < MANY else LARGE_JUDGED)])
    found = {}
    for engine in ENGINES:
        root = directory / f"judged-{engine}-{keys}"
        found[engine] = _of("judged_tables.py", root, engine, database, workload)
        shutil.rmtree(root)
    ours, theirs = (found[engine]["shown"] for engine in ENGINES)
    if ours != theirs:
        raise RuntimeError(f"Rows and sums of the table are {ours} of Tidegate, and {theirs} of Structured Streaming")
    tidegate, streaming = (found[engine]["costs"] for engine in ENGINES)
    series = {int(events): {**tidegate[events], "streaming": streaming[events]["with_tables"]} for events in tidegate}
    return {"keys": keys, "costs": series}


def _of(script: str, root: Path, engine: str, database: Database, *more: str) -> Any:
    root.mkdir()
    return answered(script, str(root), root, database, engine, str(database.process), *more)


def empty(directory: Path, database: Database) -> list[Cost]:
    """What each checkpoint to which nothing came costs a pipeline with judged tables."""
    root = directory / "empty"
    root.mkdir()
    costs: list[Cost] = answered("empty_checkpoint.py", str(root), root, database, str(database.process))
    return costs


def answered(script: str, argument: str, root: Path, database: Database, *more: str) -> Any:
    """What a script of this directory prints as its last line, as JSON. Raises `RuntimeError` if it fails."""
    process = start(script, argument, root, database, *more)
    if finished(process) != 0:
        raise RuntimeError(f"A process of {script} failed; see {root / 'log'}")
    return json.loads((root / "log").read_text().splitlines()[-1])


def server_process(url: str) -> int:
    """The process id of a Postgres on this machine."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        path = connection.execute(text("SELECT current_setting('data_directory')")).scalar_one()
    return int((Path(path) / "postmaster.pid").read_text().splitlines()[0])
