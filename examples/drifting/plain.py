"""The expected content of the example's table, computed in plain Python without Tidegate."""

import csv
from collections.abc import Iterable
from pathlib import Path

#: A file, and whether the code that read it had the column `voltage`.
Read = tuple[Path, bool]


def meters(files: Iterable[Read]) -> dict[int | None, tuple[float | None, int | None]]:
    """Return the average and the highest voltage of each meter that was read more than once."""
    meters_read: dict[int | None, tuple[int, float | None, int | None]] = {}
    for path, knows_voltage in files:
        with path.open() as lines:
            for row in csv.DictReader(lines):
                name = next(name for name in ("meter_id", "meter", "meterId") if name in row)
                meter = int(row[name]) if row[name] else None
                readings, total, highest = meters_read.get(meter, (0, None, None))
                if row["value"]:
                    total = float(row["value"]) + (total or 0)
                if knows_voltage and row.get("voltage"):
                    highest = max(int(row["voltage"]), highest or 0)
                meters_read[meter] = (readings + 1, total, highest)
    return {
        meter: (None if total is None else total / readings, highest)
        for meter, (readings, total, highest) in meters_read.items()
        if readings > 1
    }
