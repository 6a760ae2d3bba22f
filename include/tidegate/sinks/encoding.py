"""The encoding of rows as Parquet, and the columns that Parquet cannot hold or that readers cannot tell apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.state.hashing_file import HashingFile


def without_type(columns: "pa.Schema") -> list[str]:
    """Return a phrase for each column of a `pyarrow.Schema` whose type Parquet does not have."""
    import pyarrow as pa

    def lacks(kind: "pa.DataType") -> bool:
        if pa.types.is_nested(kind):
            return any(lacks(kind.field(at).type) for at in range(kind.num_fields))
        return bool(pa.types.is_duration(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind))

    return [
        f"column {field.name!r} has type {field.type}, which Parquet does not have: cast it in a transform, such as to "
        "a string or a number of seconds"
        for field in columns
        if lacks(field.type)
    ]


def ambiguous(names: Sequence[str]) -> list[str]:
    """Return a phrase for each name that readers cannot tell from another one: Spark ignores case."""
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    return [f"there are several columns {name!r}, whose names readers do not tell apart: rename one" for name in twice]


def write(rows: "pa.Table", file: "HashingFile") -> None:
    """Write the rows as Parquet, provided that Spark reads back the types that pyarrow writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = [field.name for field in rows.schema if _is_packed(field.type)]
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    options: dict[str, Any] = {"compression": "zstd"}
    if not any(pa.types.is_nested(field.type) for field in rows.schema):
        options = {
            "use_dictionary": texts,
            "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
            "compression": {name: "snappy" if name in packed else "zstd" for name in rows.schema.names},
        }
    pq.write_table(rows, file, coerce_timestamps="us", **options)


def _is_packed(kind: "pa.DataType") -> bool:
    """Whether a column is encoded as differences. That takes a fifth of the time and half of the bytes of a dictionary,
    which does not help where most values differ. Snappy is fastest on bytes that can hardly be compressed."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))
