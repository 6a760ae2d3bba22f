"""Workload W: which files of events there are, in which order, and what the totals must be in the end.

Keys are bigint in [0, K). A first file loads every key once; then come series of epochs, one file each, over uniformly
random keys; the last file is for the epoch after a restart. Seeded, so that every engine and every run reads the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

SCHEMA = "key bigint, value bigint"
TOTALS = ("key", "events", "total", "largest")
#: No epoch has fewer events, and each number of keys has epochs of so many.
FEWEST = 10_000
LARGE = 1_000_000
_LARGEST_VALUE = 1_000_000
#: What lies between the files and the aggregate: nothing, or what people write most.
STRAIGHT, CSV, COMPUTED = "straight", "CSV behind a filter", "Parquet behind a filter and a computed column"
BEHIND = CSV, COMPUTED
_SEED = 20260


@dataclass(frozen=True, slots=True)
class Epoch:
    """One file of events and the checkpoint that ends it; `warm_up` epochs count in no figure."""

    number: int
    phase: str  # load, epochs, restart
    events: int
    warm_up: bool
    format: str = "parquet"

    @property
    def file(self) -> str:
        return f"{self.number:03}-{self.phase}-{self.events}.{self.format}"


@dataclass(frozen=True, slots=True)
class Workload:
    """W at one number of keys. `warm_ups` epochs before the `measured` ones of each series, of which large ones have
    half: their epochs vary less, and one takes many times as long."""

    keys: int
    warm_ups: int
    measured: int
    shape: str = STRAIGHT

    @property
    def format(self) -> Literal["csv", "parquet"]:
        return "csv" if self.shape == CSV else "parquet"

    @property
    def name(self) -> str:
        """What its directories and its pipeline are called."""
        return f"{self.keys}_{(STRAIGHT, *BEHIND).index(self.shape)}"

    def transformed(self, rows: Any) -> Any:
        """What a DataFrame goes through in front of the aggregate."""
        if self.shape == STRAIGHT:
            return rows
        kept = rows.where("value IS NOT NULL")
        return kept if self.shape == CSV else kept.withColumn("value", kept["value"] * 2)

    def series(self) -> list[int]:
        """Events per epoch of each series, ascending: 10 k, and of K/100 and K/10 what is more."""
        return sorted({FEWEST, *(events for events in (self.keys // 100, self.keys // 10) if events > FEWEST)})

    def repetitions(self, events: int) -> tuple[int, int]:
        """How many epochs of a series warm up, and how many count."""
        large = events >= LARGE
        return (max(self.warm_ups // 2, 1), max(self.measured // 2, 3)) if large else (self.warm_ups, self.measured)

    def epochs(self) -> list[Epoch]:
        steps = [("load", self.keys, True)]
        for events in self.series():
            warm_ups, measured = self.repetitions(events)
            steps += [("epochs", events, number < warm_ups) for number in range(warm_ups + measured)]
        steps.append(("restart", self.keys // 10, False))
        return [
            Epoch(number, phase, events, warm_up, self.format) for number, (phase, events, warm_up) in enumerate(steps)
        ]

    def write(self, directory: Path) -> None:
        """Write the files that are not there yet."""
        directory.mkdir(parents=True, exist_ok=True)
        for epoch, (keys, values) in self.files():
            if not (path := directory / epoch.file).exists():
                table = pa.table({"key": keys, "value": values})
                if self.format == "csv":
                    pa.csv.write_csv(table, path)
                else:
                    pq.write_table(table, path, row_group_size=max(epoch.events // 4, 1))

    def totals(self) -> dict[str, Any]:
        """Events, total and largest value of each key after all epochs, as arrays in the order of the keys."""
        events = np.zeros(self.keys, np.int64)
        total = np.zeros(self.keys, np.int64)
        largest = np.full(self.keys, np.iinfo(np.int64).min)
        for _, (keys, given) in self.files():
            values = given * 2 if self.shape == COMPUTED else given
            events += np.bincount(keys, minlength=self.keys)
            np.add.at(total, keys, values)
            np.maximum.at(largest, keys, values)
        return {"key": np.arange(self.keys), "events": events, "total": total, "largest": largest}

    def files(self) -> Iterator[tuple[Epoch, tuple[Any, Any]]]:
        """Of each epoch the keys and values of its events, as arrays."""
        for epoch in self.epochs():
            random = np.random.default_rng([_SEED, self.keys, epoch.number])
            load = epoch.phase == "load"
            keys = random.permutation(self.keys) if load else random.integers(0, self.keys, epoch.events)
            yield epoch, (keys, random.integers(-_LARGEST_VALUE, _LARGEST_VALUE, epoch.events))


def totals_of(directory: Path) -> dict[str, Any]:
    """The totals that an engine has written as Parquet."""
    found = pq.read_table(directory, columns=list(TOTALS))
    return {name: found[name].to_numpy() for name in TOTALS}


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """How an engine's totals differ from the expected ones; empty if every key is right."""
    order = np.argsort(found["key"])
    problems = []
    for name in TOTALS:
        column = found[name][order]
        if column.shape != expected[name].shape:
            return [f"{len(column):,} keys instead of {len(expected[name]):,}"]
        if wrong := int(np.count_nonzero(column != expected[name])):
            problems.append(f"{name} is wrong for {wrong:,} keys")
    return problems
