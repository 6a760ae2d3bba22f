"""State layouts of tests in a few words."""

from typing import Any

import pyarrow as pa

from tidegate.state.layout import StateLayout

K, V = ("k", pa.int64()), ("v", pa.int64())
INPUT = pa.schema([K, V, ("w", pa.int64())])


def rows(*fields: tuple[str, pa.DataType], key: str | list[str] = "k", **defaults: Any) -> StateLayout:
    """The state of a user function."""
    return StateLayout.of_rows(pa.schema(fields), [key] if isinstance(key, str) else key, defaults)


def kept(schema: pa.Schema = INPUT, key: str = "k", **aggregates: Any) -> StateLayout:
    """The state of declared aggregates."""
    return StateLayout.of_aggregates(schema, [key], list(aggregates.items()))


def read(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)
