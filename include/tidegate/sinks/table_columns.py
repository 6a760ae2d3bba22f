"""The columns of an appended table, even if they have changed since its first rows."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(partitions: Sequence[str]) -> "pa.Schema | None":
    """Return the `pyarrow.Schema` that reads all of these directories, oldest first. None if there is no file."""
    first = (next(iter(sorted(_visible(directory))), None) for directory in partitions)
    files = [os.path.join(directory, name) for directory, name in zip(partitions, first, strict=True) if name]
    return columns_of_files(files) if files else None


def columns_of_files(files: Sequence[str]) -> "pa.Schema":
    """Return the `pyarrow.Schema` that reads all of these files, oldest first. It has the newest type of each column,
    and after the newest columns those that only older rows have."""
    # pyarrow is heavy and this module is imported when Airflow parses a DAG.
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields: dict[str, Any] = {}
    for file in reversed(files):
        for field in pq.read_schema(file):
            fields.setdefault(field.name, field.with_nullable(True))
    return pa.schema(list(fields.values()))


def _visible(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if not name.startswith((".", "_"))]
