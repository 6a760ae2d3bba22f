"""The records of a text file, as a Spark task would give them."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.sources.dialect import text_format
from tidegate.sources.files import FileSource
from tidegate.sources.json_texts import Places
from tidegate.sources.parts import Part
from tidegate.sources.reading import ReadPlan

Row = tuple[int, str, str | None]


def read(path: Path, parts: list[Part] | None = None, **arguments: Any) -> list[Row]:
    """Line, record and problem of every row of a file, as a Spark task would give them."""
    return [(row["line"], row["record"], row["problem"]) for row in whole_rows(path, parts, **arguments)]


def whole_rows(
    path: Path, parts: list[Part] | None = None, columns: int = 2, places: Places = False, **arguments: Any
) -> list[dict[str, Any]]:
    arguments.setdefault("options", {}).setdefault("header", "false")
    source = FileSource(str(path.parent), schema="a STRING", **arguments)
    form = text_format(source, tuple(f"c{n}" for n in range(columns)), places)
    plan = ReadPlan(str(path.parent), [tuple(parts or [Part(path.name)])], form)
    ids = pa.RecordBatch.from_pydict({"id": [0]})
    return [row for batch in plan.run([ids]) for row in batch.to_pylist()]


def records(path: Path, **arguments: Any) -> list[str]:
    return [record for _, record, _ in read(path, **arguments)]
