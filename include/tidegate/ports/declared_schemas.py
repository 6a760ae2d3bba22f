"""Schemas as users declare them: Spark DDL, a `StructType` or a pydantic model. All other code works with the DDL.

Neither library is imported here. A user who passes such an object has the library.
"""

import types
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeGuard, Union, get_args, get_origin

from tidegate.protocol.facts.errors import PipelineDefinitionError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyspark.sql.types import StructField, StructType

#: A declaration of columns: Spark DDL, a pyspark `StructType`, or a pydantic model, which is a class.
Schema: TypeAlias = Union[str, "StructType", "type[BaseModel]"]


def ddl_of(schema: Schema) -> str:
    """Return the DDL of a schema. Text is returned unchanged. A column of a pydantic model has the name of the field's
    alias, and may be null. Raises `PipelineDefinitionError`. Performs no I/O."""
    if isinstance(schema, str):
        return schema
    if _is_model(schema):
        return ", ".join(f"{_quoted(name)} {type_}" for name, type_ in _fields_of_model(schema))
    if _is_struct(schema):
        return ", ".join(_struct_column(field) for field in schema.fields)
    raise PipelineDefinitionError(
        f'A schema is Spark DDL such as "carrier STRING, dep_delay DOUBLE", a pyspark StructType, or a pydantic model, '
        f"not {schema!r}."
    )


def _is_model(schema: object) -> "TypeGuard[type[BaseModel]]":
    return isinstance(getattr(schema, "model_fields", None), Mapping)


def _is_struct(schema: object) -> "TypeGuard[StructType]":
    return hasattr(schema, "fieldNames")


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _struct_column(field: "StructField") -> str:
    return f"{_quoted(field.name)} {_spark_type(field.dataType)}" + ("" if field.nullable else " NOT NULL")


def _spark_type(type_: Any) -> str:  # the type name tells the class of a `DataType`, so that none is imported
    """Return the type as DDL. Names that need quotes are quoted, unlike in Spark's `simpleString`."""
    match type_.typeName():
        case "struct":
            return f"struct<{', '.join(f'{_quoted(f.name)}: {_spark_type(f.dataType)}' for f in type_.fields)}>"
        case "array":
            return f"array<{_spark_type(type_.elementType)}>"
        case "map":
            return f"map<{_spark_type(type_.keyType)}, {_spark_type(type_.valueType)}>"
        case _:
            return str(type_.simpleString())


_PLAIN: Mapping[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BINARY",
    date: "DATE",
    datetime: "TIMESTAMP",
    timedelta: "INTERVAL DAY TO SECOND",
    Decimal: "DECIMAL(38, 18)",
}


_DIGITS = ("max_digits", "decimal_places")


def _fields_of_model(model: "type[BaseModel]") -> list[tuple[str, str]]:
    """Return the names and types of a pydantic model's fields."""
    fields = []
    for name, field in model.model_fields.items():
        try:
            type_ = _python_type(field.annotation, field.metadata)
        except TypeError as error:
            raise PipelineDefinitionError(
                f"The field {name!r} of {model.__name__} has the type {error}, which no column of Spark holds. Declare "
                "the schema as Spark DDL, or give the field one of these: "
                f"{', '.join(each.__name__ for each in _PLAIN)}, an Enum or Literal of text, a list, a dict, a model."
            ) from None
        fields.append((field.alias or name, type_))
    return fields


def _python_type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return the Spark type. Raises `TypeError` with the annotation if there is none."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _python_type(arguments[0], arguments[1:])
    if origin in (Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        if len(others) == 1:
            return _python_type(others[0], metadata)
    elif origin is list:
        return f"ARRAY<{_python_type(arguments[0])}>"
    elif origin is dict:
        return f"MAP<{_python_type(arguments[0])}, {_python_type(arguments[1])}>"
    elif origin is Literal and all(isinstance(each, str) for each in arguments):
        return "STRING"
    elif annotation is Decimal:
        return _decimal(metadata)
    elif annotation in _PLAIN:
        return _PLAIN[annotation]
    elif isinstance(annotation, type) and issubclass(annotation, str) and issubclass(annotation, Enum):
        return "STRING"
    elif _is_model(annotation):
        return f"STRUCT<{', '.join(f'{_quoted(name)}: {type_}' for name, type_ in _fields_of_model(annotation))}>"
    raise TypeError(annotation)


def _decimal(metadata: Sequence[Any]) -> str:
    """Return the decimal with the digits of pydantic's `Field(max_digits=…, decimal_places=…)`."""
    digits = {name: n for each in metadata for name in _DIGITS if (n := getattr(each, name, None)) is not None}
    return f"DECIMAL({digits.get('max_digits', 38)}, {digits.get('decimal_places', 0 if digits else 18)})"
