"""The numbers and types of columns in Iceberg, for the rows of a sink and for its table.

Iceberg identifies columns by number. This module needs Arrow only, so that it runs on executors: the number of a column
is in its metadata, as in Parquet files.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_ID = b"PARQUET:field_id"


def id_of(field: "pa.Field") -> int | None:
    """Return the number of a column; None if it has none."""
    found = (field.metadata or {}).get(_ID)
    return None if found is None else int(found)


def without_type(columns: "pa.Schema") -> list[str]:
    """Return a phrase for each column whose type Iceberg does not have."""
    return [
        f"column {field.name!r} is {field.type}, which Iceberg does not have: cast it in a transform"
        for field in columns
        if _iceberg(field.type) is None
    ]


def _iceberg(kind: "pa.DataType") -> "pa.DataType | None":
    """Return the type that rows have in a table. Iceberg's smallest integer has 32 bits, and its times microseconds."""
    import pyarrow as pa
    import pyarrow.types as of

    made: list[tuple[bool, pa.DataType]] = [
        (of.is_int8(kind) or of.is_int16(kind) or of.is_uint8(kind) or of.is_uint16(kind), pa.int32()),
        (of.is_int32(kind), pa.int32()),
        (of.is_int64(kind) or of.is_uint32(kind), pa.int64()),
        (of.is_boolean(kind), pa.bool_()),
        (of.is_float16(kind) or of.is_float32(kind), pa.float32()),
        (of.is_float64(kind), pa.float64()),
        (of.is_decimal128(kind) and 0 <= kind.scale <= kind.precision, kind),
        (of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind), pa.string()),
        (of.is_binary(kind) or of.is_large_binary(kind) or of.is_binary_view(kind), pa.binary()),
        (of.is_fixed_size_binary(kind), kind),
        (of.is_date(kind), pa.date32()),
        (of.is_time(kind), pa.time64("us")),
        (of.is_timestamp(kind), pa.timestamp("us", None if getattr(kind, "tz", None) is None else "UTC")),
    ]
    simple = next((made_type for matches, made_type in made if matches), None)
    return simple or _nested(kind)


def _nested(kind: "pa.DataType") -> "pa.DataType | None":
    import pyarrow as pa
    import pyarrow.types as of

    if of.is_struct(kind):
        inner = [kind.field(at) for at in range(kind.num_fields)]
        made = [_iceberg(field.type) for field in inner]
        if not inner or None in made:
            return None
        return pa.struct([field.with_type(each) for field, each in zip(inner, made, strict=True)])
    if of.is_map(kind):
        key, value = _iceberg(kind.key_type), _iceberg(kind.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if _is_list(kind):
        value = _iceberg(kind.value_type)
        return None if value is None else pa.list_(value)
    return None


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow.types as of

    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))


class Numbering:
    """Numbers the columns of rows: those of the table keep their numbers, by name, and others get new ones, the same in
    every task."""

    def __init__(self, last: int, renamed: Mapping[str, str]) -> None:
        self.last = last
        self._former = {new: old for old, new in renamed.items()}

    def schema(self, rows: "pa.Schema", table: "pa.Schema | None") -> "pa.Schema":
        """Return the columns as they are written. `table` has the table's columns with their numbers."""
        import pyarrow as pa

        known = {field.name: field for field in table or ()}
        return pa.schema([self._field(field, known.get(field.name) or self._before(field, known)) for field in rows])

    def _before(self, field: "pa.Field", known: "Mapping[str, pa.Field]") -> "pa.Field | None":
        return known.get(self._former.get(field.name, ""))

    def _field(self, field: "pa.Field", known: "pa.Field | None") -> "pa.Field":
        import pyarrow as pa

        number = None if known is None else id_of(known)
        if number is None:
            self.last += 1
            number = self.last
        kind = _iceberg(field.type)
        assert kind is not None
        there = None if known is None else known.type
        nullable = True if known is None else known.nullable  # later rows may lack a new column
        return pa.field(field.name, self._type(kind, there), nullable, {_ID: str(number)})

    def _type(self, kind: "pa.DataType", known: "pa.DataType | None") -> "pa.DataType":
        import pyarrow as pa
        import pyarrow.types as of

        if of.is_struct(kind):
            inner = {} if known is None or not of.is_struct(known) else {each.name: each for each in known}
            return pa.struct([self._field(field, inner.get(field.name)) for field in kind])
        if of.is_map(kind):
            same = known if known is not None and of.is_map(known) else None
            key = self._field(kind.key_field.with_name("key"), same and same.key_field)
            value = self._field(kind.item_field.with_name("value"), same and same.item_field)
            return pa.map_(key.with_nullable(False), value)
        if of.is_list(kind):
            same = known if known is not None and _is_list(known) else None
            return pa.list_(self._field(kind.value_field.with_name("element"), same and same.value_field))
        return known if known is not None and widens(kind, known) else kind


def widens(narrow: "pa.DataType", wide: "pa.DataType") -> bool:
    """Whether Iceberg lets a column of the narrow type become one of the wide type."""
    import pyarrow as pa
    import pyarrow.types as of

    if of.is_decimal128(narrow) and of.is_decimal128(wide):
        return bool(narrow.scale == wide.scale and narrow.precision < wide.precision)
    return (narrow, wide) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
