"""The columns of a table in Spark's DDL."""

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tidegate.iceberg.names import TableName
from tidegate.protocol.facts.errors import PipelineDefinitionError

_SIMPLE: dict[type[IcebergType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INT",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimestampType: "TIMESTAMP_NTZ",
    TimestamptzType: "TIMESTAMP",
    StringType: "STRING",
    BinaryType: "BINARY",
    FixedType: "BINARY",
}


def ddl_of_table(name: TableName, schema: Schema) -> str:
    """Return the columns as DDL. Raise `PipelineDefinitionError` if Spark does not have the type of a column."""
    found = {each.name: _type(each.field_type) for each in schema.fields}
    odd = [each for each in schema.fields if found[each.name] is None]
    if odd:
        listed = ", ".join(f"{each.name} ({each.field_type})" for each in odd)
        raise PipelineDefinitionError(
            f"Spark does not have the type of these columns of table {name}: {listed}. Give IcebergSource a schema= "
            "without them."
        )
    return ", ".join(f"{_quoted(column)} {kind}" for column, kind in found.items())


def _type(kind: IcebergType) -> str | None:
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, ListType):
        element = _type(kind.element_type)
        return None if element is None else f"ARRAY<{element}>"
    if isinstance(kind, MapType):
        key, value = _type(kind.key_type), _type(kind.value_type)
        return None if key is None or value is None else f"MAP<{key}, {value}>"
    if isinstance(kind, StructType):
        inner = [(each.name, _type(each.field_type)) for each in kind.fields]
        if any(made is None for _, made in inner):
            return None
        return f"STRUCT<{', '.join(f'{_quoted(name)}: {made}' for name, made in inner)}>"
    return _SIMPLE.get(type(kind))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
