"""Avro schemas from a definition, and their columns in Spark's types. Types that Spark does not have are refused.

Needs neither fastavro nor pyarrow, and performs no I/O.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from tidegate.kafka.column_types import ColumnType
from tidegate.protocol.facts.errors import PipelineDefinitionError

#: A schema as JSON: an object, or its text.
AvroSchema: TypeAlias = Mapping[str, Any] | str

_PLAIN = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
#: Unions of two types of numbers, and the type that holds both.
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}


def parsed(given: AvroSchema, what: str) -> dict[str, Any]:
    """Parse the schema of a record, named `what` in errors. Raise `PipelineDefinitionError`."""
    found: Any = given
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except ValueError as error:
            raise PipelineDefinitionError(f"{what} is no Avro schema: it is not JSON ({error}).") from None
    if not isinstance(found, Mapping) or found.get("type") != "record":
        raise PipelineDefinitionError(
            f'{what} is no Avro schema of a record, such as {{"type": "record", "name": "Order", "fields": [{{"name": '
            '"id", "type": "long"}]}: the fields of a record are the columns.'
        )
    normal: dict[str, Any] = json.loads(json.dumps(found))
    return normal


def avro_columns(schema: Mapping[str, Any], what: str) -> dict[str, ColumnType]:
    """Return the columns of a record's schema. Raise `PipelineDefinitionError`."""
    columns = _Columns(what)
    return dict(columns.fields(schema, ()))


def ddl_of_avro(schema: Mapping[str, Any], what: str) -> str:
    """Return the columns of a record's schema as Spark DDL. Raise `PipelineDefinitionError`."""
    return ", ".join(f"`{name}` {type_.ddl()}" for name, type_ in avro_columns(schema, what).items())


class _Columns:
    def __init__(self, what: str) -> None:
        self._what = what
        self._named: dict[str, Any] = {}

    def fields(self, record: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ColumnType]]:
        self._named[str(record.get("name"))] = record
        for field in record["fields"]:
            yield field["name"], self._type(field["type"], (*path, field["name"]))

    def _type(self, given: Any, path: tuple[str, ...]) -> ColumnType:
        if isinstance(given, list):
            return self._type(self._of_union(given, path), path)
        if isinstance(given, str):
            return self._type({"type": given}, path) if given in _PLAIN else self._reference(given, path)
        if isinstance(given.get("type"), (dict, list)):
            return self._type(given["type"], path)
        kind = given.get("type")
        if kind in ("enum", "fixed"):
            self._named[str(given.get("name"))] = given
        match kind:
            case "record" | "error":
                if len(path) > 50:
                    raise self._odd(path, "is a record that contains itself, for which Spark has no type")
                return ColumnType("struct", tuple(self.fields(given, path)))
            case "array":
                return ColumnType("array", (("element", self._type(given["items"], (*path, "element"))),))
            case "map":
                value = self._type(given["values"], (*path, "value"))
                return ColumnType("map", (("key", ColumnType("string")), ("value", value)))
            case "bytes" | "fixed" if given.get("logicalType") == "decimal":
                return ColumnType("decimal", digits=(int(given["precision"]), int(given.get("scale", 0))))
            case _ if kind in _PLAIN:
                return ColumnType(_LOGICAL.get((kind, given.get("logicalType")), _PLAIN[kind]))
        return self._reference(str(kind), path)

    def _of_union(self, given: list[Any], path: tuple[str, ...]) -> Any:
        """Return the single type of a union, apart from null."""
        others = [each for each in given if each != "null"]
        if len(others) == 1:
            return others[0]
        if all(isinstance(each, str) for each in others) and (wide := _WIDER.get(frozenset(others))):
            return wide
        raise self._odd(path, "is a union of several types, which a column cannot be")

    def _reference(self, name: str, path: tuple[str, ...]) -> ColumnType:
        found = self._named.get(name, self._named.get(name.rpartition(".")[2]))
        if found is None:
            raise self._odd(path, f"has the type {name!r}, which is nowhere defined")
        return self._type(found, path)

    def _odd(self, path: tuple[str, ...], why: str) -> PipelineDefinitionError:
        return PipelineDefinitionError(f"{self._what}: the field {'.'.join(path[:3])} {why}.")


_OF_SPARK: Mapping[str, Any] = {
    "boolean": "boolean",
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def schema_of_columns(columns: Mapping[str, ColumnType], name: str) -> dict[str, Any]:
    """Return a schema for rows of these columns, each of which may be null."""
    fields = [
        {"name": column, "type": ["null", _of_spark(type_, f"{name}_{column}")], "default": None}
        for column, type_ in columns.items()
    ]
    return {"type": "record", "name": name, "fields": fields}


def _of_spark(type_: ColumnType, name: str) -> Any:
    match type_.name:
        case "array":
            return {"type": "array", "items": ["null", _of_spark(type_.inner[0][1], name)]}
        case "map":
            return {"type": "map", "values": ["null", _of_spark(type_.inner[1][1], name)]}
        case "struct":
            return schema_of_columns(dict(type_.inner), name)
        case "decimal":
            return {"type": "bytes", "logicalType": "decimal", "precision": type_.digits[0], "scale": type_.digits[1]}
    return _OF_SPARK[type_.name]
