"""Measures the way back: restore, rescale, savepoints and look-ups of keys, over some number of keys.

Each process starts anew, because that is how people go back. A restart, a restore with another parallelism and a plain
restore take the same file of events from the same checkpoint, one after the other, some times over.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import conditions
import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import Figure, short, spread

ROUNDS = 3
FEW, MANY = 2, 8  # parallelism before and after a rescale


def measure(keys: int, directory: Path, database: measuring.Database) -> dict[str, Any]:
    """What each step took. Raises `RuntimeError` if a process fails."""
    root = directory / "way-back"
    (root / "landing").mkdir(parents=True)
    files = _write(root / "data", keys, 1 if conditions.is_quick() else ROUNDS)

    def run(step: str, **asked: Any) -> dict[str, Any]:
        began = time.time()
        common = {"parallelism": FEW} if step != "look_ups" else {}
        argument = json.dumps({"step": step, "root": str(root), **common, **asked})
        found: dict[str, Any] = measuring.answered("way_back_engine.py", argument, root, database)
        return {**found, "since_start": found["end"] - began} if "end" in found else found

    at = run("epochs", files=files[:2])["checkpoint"]
    rounds = []
    for file in files[2:]:
        restart = run("epochs", files=[file])
        rescaled = run("restored_epoch", file=file, checkpoint=at, parallelism=MANY)
        restored = run("restored_epoch", file=file, checkpoint=at)
        rounds.append({"restart": restart, "rescaled": rescaled, "restored": restored})
        at = restored["checkpoint"]
    savepoints = run("savepoints", url=str(root / "savepoint"))
    return {"keys": keys, "rounds": rounds, "savepoints": savepoints, "look_ups": run("look_ups", keys=keys)}


def _write(directory: Path, keys: int, rounds: int) -> list[str]:
    """A file with every key once, one more before the first checkpoint that is gone back to, and one for each round."""
    directory.mkdir()
    random, paths = np.random.default_rng(20270), []
    for number in range(2 + rounds):
        drawn = random.integers(0, keys, keys // 10) if number else random.permutation(keys)
        path = directory / f"{number}.parquet"
        pq.write_table(pa.table({"key": drawn, "value": random.integers(0, 1000, len(drawn))}), path)
        paths.append(str(path))
    return paths


def figures(result: dict[str, Any]) -> Iterator[Figure]:
    where, rounds, savepoints = f"{short(result['keys'])} keys", result["rounds"], result["savepoints"]
    yield _pair(f"{where}: restore and first epoch : restart", rounds, "since_start", ("restored", "restart"), 1.1)
    what = f"{where}: first epoch after a rescale {FEW} to {MANY} : without"
    yield _pair(what, rounds, "seconds", ("rescaled", "restored"), 1.3)
    native, plain = savepoints["native"], savepoints["plain"]
    yield Figure(f"{where}: native savepoint, seconds", spread(native, 1, "s"), median(native), 1.0)
    for what, field in (("canonical savepoint", "canonical"), ("restore from it", "restored")):
        measured = f"{savepoints[field]:.2f} s : {plain:.2f} s ({savepoints['bytes'] / 1e6:,.0f} MB)"
        yield Figure(f"{where}: {what} : its bytes by plain Spark", measured, savepoints[field] / plain, 2.0)
    first, *others = result["look_ups"]["seconds"]
    start_up = result["look_ups"]["start_up"]
    measured = f"{first:.2f} s, then {spread(others, 1, 's')}; imports {start_up:.2f} s"
    yield Figure(f"{where}: a key's row, the first of a process, seconds", measured, first, 0.5)


def _pair(what: str, rounds: list[dict[str, Any]], field: str, steps: tuple[str, str], target: float) -> Figure:
    ours, theirs = ([each[step][field] for each in rounds] for step in steps)
    return Figure(what, f"{spread(ours, 1, 's')} : {spread(theirs, 1, 's')}", median(ours) / median(theirs), target)
