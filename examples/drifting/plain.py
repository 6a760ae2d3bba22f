"""What the table of the example must hold, computed in Python and without anything of ours."""

import csv
from collections.abc import Iterable
from pathlib import Path

#: A file, and whether the code that read it knew of the voltage.
Read = tuple[Path, bool]


def meters(files: Iterable[Read]) -> dict[int | None, tuple[float | None, int | None]]:
    """By meter that was read more than once, the average and the highest voltage."""
    found: dict[int | None, tuple[int, float | None, int | None]] = {}
    for path, knows_voltage in files:
        with path.open() as lines:
            for row in csv.DictReader(lines):
                name = next(name for name in ("meter_id", "meter", "meterId") if name in row)
                meter = int(row[name]) if row[name] else None
                readings, total, highest = found.get(meter, (0, None, None))
                if row["value"]:
                    total = float(row["value"]) + (total or 0)
                if knows_voltage and row.get("voltage"):
                    highest = max(int(row["voltage"]), highest or 0)
                found[meter] = (readings + 1, total, highest)
    return {
        meter: (None if total is None else total / readings, highest)
        for meter, (readings, total, highest) in found.items()
        if readings > 1
    }
