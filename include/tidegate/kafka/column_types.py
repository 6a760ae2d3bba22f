"""The types of columns in Spark DDL that the values of a topic can be read as. Does not need Spark.

Only `arrow_columns` needs pyarrow. A definition is checked without it.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.ddl import columns_of, parts_of

if TYPE_CHECKING:
    import pyarrow as pa

_TYPE = re.compile(r"(\w+)\s*(?:[<(](.*)[>)])?", re.DOTALL)
_NAMES = {
    **dict.fromkeys(("tinyint", "byte"), "int8"),
    **dict.fromkeys(("smallint", "short"), "int16"),
    **dict.fromkeys(("int", "integer"), "int32"),
    **dict.fromkeys(("bigint", "long"), "int64"),
    **dict.fromkeys(("float", "real"), "float"),
    **dict.fromkeys(("string", "char", "character", "varchar"), "string"),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), "timestamp"),
    **dict.fromkeys(("decimal", "dec", "numeric"), "decimal"),
    **{name: name for name in ("boolean", "double", "binary", "date", "timestamp_ntz", "array", "map", "struct")},
}


_DDL = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}


class ColumnType(NamedTuple):
    """A type under one of its names. `inner` has the element of an array, the key and value of a map, or the fields of
    a struct, by name; `digits` those of a decimal."""

    name: str
    inner: "tuple[tuple[str, ColumnType], ...]" = ()
    digits: tuple[int, int] = (10, 0)

    def ddl(self) -> str:
        """Return the type as Spark writes it."""
        inner = [each.ddl() for _, each in self.inner]
        match self.name:
            case "array" | "map":
                return f"{self.name.upper()}<{', '.join(inner)}>"
            case "struct":
                fields = (f"`{name}`: {type_}" for (name, _), type_ in zip(self.inner, inner, strict=True))
                return f"STRUCT<{', '.join(fields)}>"
            case "decimal":
                return f"DECIMAL({self.digits[0]},{self.digits[1]})"
        return _DDL.get(self.name, self.name.upper())

    def all(self) -> "Iterator[ColumnType]":
        """Yield this type and those inside."""
        yield self
        for _, each in self.inner:
            yield from each.all()


def column_types(ddl: str) -> dict[str, ColumnType]:
    """Parse the columns of a DDL text. Raise `PipelineDefinitionError` for a type that no value of a topic can have."""
    found = columns_of(ddl.strip())
    if not found:
        raise PipelineDefinitionError(
            f"A schema is Spark DDL, a list of columns such as `page STRING, user BIGINT`, not {ddl!r}."
        )
    return {name: column_type(name, type_) for name, type_ in found}


def column_type(column: str, text: str) -> ColumnType:
    """Parse the type of a column. Raise `PipelineDefinitionError`, which names the column."""
    matched = _TYPE.fullmatch(text.strip())
    name = None if matched is None else _NAMES.get(matched[1].lower())
    if matched is None or name is None:
        raise PipelineDefinitionError(
            f"Column {column!r} has the type {text.strip()}, which no value of a topic can be read as. Declare it as "
            "STRING, or as another type that the format supports."
        )
    inside = (matched[2] or "").strip()
    match name:
        case "array":
            return ColumnType(name, (("element", column_type(column, inside)),))
        case "map":
            key, value = (column_type(column, part) for part in parts_of(inside))
            return ColumnType(name, (("key", key), ("value", value)))
        case "struct":
            return ColumnType(name, tuple((each, column_type(column, type_)) for each, type_ in columns_of(inside)))
        case "decimal" if inside:
            precision, _, scale = inside.partition(",")
            return ColumnType(name, digits=(int(precision), int(scale or 0)))
    return ColumnType(name)


def arrow_columns(ddl: str) -> "pa.Schema":
    """Return the columns in the types in which Spark passes them to Python."""
    import pyarrow as pa

    return pa.schema([pa.field(name, _arrow(type_)) for name, type_ in column_types(ddl).items()])


def _arrow(type_: ColumnType) -> "pa.DataType":
    import pyarrow as pa

    inner = [(name, _arrow(each)) for name, each in type_.inner]
    match type_.name:
        case "array":
            return pa.list_(pa.field(*inner[0]))
        case "map":
            return pa.map_(inner[0][1], inner[1][1])
        case "struct":
            return pa.struct([pa.field(*each) for each in inner])
        case "decimal":
            return pa.decimal128(*type_.digits)
        case "timestamp":
            return pa.timestamp("us", "UTC")
        case "timestamp_ntz":
            return pa.timestamp("us")
        case "date":
            return pa.date32()
    return pa.type_for_alias({"boolean": "bool"}.get(type_.name, type_.name))


def of_arrow(kind: "pa.DataType") -> ColumnType:
    """Return the type of a column in Arrow."""
    import pyarrow.types as of

    if of.is_map(kind):
        return ColumnType("map", (("key", of_arrow(kind.key_type)), ("value", of_arrow(kind.item_type))))
    if of.is_list(kind) or of.is_large_list(kind):
        return ColumnType("array", (("element", of_arrow(kind.value_type)),))
    if of.is_struct(kind):
        return ColumnType("struct", tuple((each.name, of_arrow(each.type)) for each in kind))
    if of.is_decimal(kind):
        return ColumnType("decimal", digits=(kind.precision, kind.scale))
    if of.is_timestamp(kind):
        return ColumnType("timestamp" if kind.tz is not None else "timestamp_ntz")
    names = {"bool": "boolean", "large_string": "string", "large_binary": "binary", "date32[day]": "date"}
    return ColumnType(names.get(str(kind), str(kind)))
