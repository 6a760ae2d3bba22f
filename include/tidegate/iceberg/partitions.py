"""The division of rows into partitions: the user's notation, Iceberg's transforms, and the values of a file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.protocol.facts.errors import PipelineDefinitionError

if TYPE_CHECKING:
    import pyarrow as pa

_FIELD = re.compile(r"(?:(year|month|day|hour)\(([^()]+)\)|(bucket|truncate)\((\d+), *([^()]+)\)|([^()]+))")


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """One partition field: a column, and the name of Iceberg's transform of its values."""

    column: str
    transform: str

    @property
    def name(self) -> str:
        """The name of the field, formed as Spark does."""
        kind = self.transform.partition("[")[0]
        return self.column if kind == "identity" else f"{self.column}_{_SUFFIXES.get(kind, kind)}"


_SUFFIXES = {"truncate": "trunc"}


def partition_by(given: Sequence[str]) -> tuple[PartitionBy, ...]:
    """Parse the user's notation, such as `day(at)`. Raise `PipelineDefinitionError`."""
    found = []
    for text in given:
        match = _FIELD.fullmatch(text.strip())
        if match is None:
            raise PipelineDefinitionError(
                f"partition_by: {text!r} is neither a column nor one of year(c), month(c), day(c), hour(c), "
                "bucket(N, c), truncate(N, c)."
            )
        time, of_time, cut, width, of_cut, plain = match.groups()
        if time:
            found.append(PartitionBy(of_time.strip(), time))
        elif cut:
            found.append(PartitionBy(of_cut.strip(), f"{cut}[{width}]"))
        else:
            found.append(PartitionBy(plain.strip(), "identity"))
    return tuple(found)


def split(rows: "pa.Table", fields: Sequence[PartitionBy]) -> "list[tuple[list[Any], pa.Table]]":
    """Split rows by partition, with the partition's values as JSON. Runs on executors."""
    import pyarrow as pa

    if not fields:
        return [([], rows)]
    names = [f"_p{at}" for at in range(len(fields))]
    columns = [_transformed(rows[field.column], field.transform) for field in fields]
    number = pa.array(range(rows.num_rows), pa.int64())
    keyed = pa.table([*columns, number], names=[*names, "_row"])
    grouped = keyed.group_by(names, use_threads=False).aggregate([("_row", "list")])
    found = []
    for group in grouped.to_pylist():
        found.append(([group[name] for name in names], rows.take(pa.array(group["_row_list"], pa.int64()))))
    return found


def _transformed(column: "pa.ChunkedArray[Any]", transform: str) -> "pa.Array[Any]":
    """Return the values of a field, each computed once, as JSON. Values without a form in JSON become text."""
    import pyarrow as pa

    whole = column.combine_chunks()
    encoded = whole.dictionary_encode() if not pa.types.is_dictionary(whole.type) else whole
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], whole.type).dictionary_encode()
    made = [_json(value) for value in _values(encoded.dictionary, transform)]
    return pa.array(made).take(encoded.indices) if made else pa.nulls(len(encoded))


def _values(unique: "pa.Array[Any]", transform: str) -> list[Any]:
    from pyiceberg.transforms import parse_transform

    computed: Any = parse_transform(transform).transform(iceberg_type(unique.type))
    return [computed(value) for value in _plain(unique).to_pylist()]


def iceberg_type(kind: "pa.DataType") -> Any:
    """Return Iceberg's type of a column that is not nested."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    named = pa.schema([pa.field("v", kind, metadata={b"PARQUET:field_id": b"1"})])
    return pyarrow_to_schema(named).find_field(1).field_type


def _plain(values: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return values as Iceberg computes with them: days and microseconds."""
    import pyarrow as pa
    import pyarrow.types as of

    if of.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if of.is_timestamp(values.type) or of.is_time64(values.type) else values


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def from_json(value: Any, kind: Any) -> Any:
    """Return the value of a field from JSON, given its type in Iceberg."""
    from decimal import Decimal

    from pyiceberg.types import BinaryType, DecimalType, FixedType

    if value is None:
        return None
    if isinstance(kind, BinaryType | FixedType):
        return bytes.fromhex(value)
    return Decimal(value) if isinstance(kind, DecimalType) else value
