"""The columns of a table that is appended to, also if they have changed since its first rows."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(partitions: Sequence[str]) -> "pa.Schema | None":
    """The `pyarrow.Schema` that reads all of these directories, oldest first: the newest type of each column, and after
    the newest columns those that only older rows have. None if there is no file."""
    # pyarrow is heavy and this module is imported when Airflow parses a DAG.
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields: dict[str, Any] = {}
    for directory in reversed(partitions):
        names = sorted(name for name in os.listdir(directory) if not name.startswith((".", "_")))
        for field in pq.read_schema(os.path.join(directory, names[0])) if names else ():
            fields.setdefault(field.name, field.with_nullable(True))
    return pa.schema(list(fields.values())) if fields else None
