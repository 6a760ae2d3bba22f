"""The declared format of a topic's values: JSON, Avro or bytes.

Checks the declaration, and performs no I/O. `values/` decodes and encodes, in Spark's tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from tidegate.kafka.avro_schemas import AvroSchema, avro_columns, ddl_of_avro, parsed, schema_of_columns
from tidegate.kafka.column_types import ColumnType, column_types
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.installed import not_installed

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.kafka.values.decoded import Decoder, Encoder

FORMATS = ("json", "avro", "bytes")
#: The only column of the format bytes, if no schema names it.
BYTES = "value BINARY"
#: Treatments of records without a value: as malformed, left out, or as rows of nulls.
TOMBSTONES = ("malformed", "skip", "null")
_WIDER = {
    *(("int32", each) for each in ("int64", "double")),
    ("float", "double"),
}


@dataclass(frozen=True)
class Format:
    """The format of a topic's values.

    Attributes:
        name: `"json"`, `"avro"` or `"bytes"`.
        tombstones: The treatment of records without a value when they are read. As bytes they are null.
        avro: The schema of Avro values; by default the one in `schemas` with the largest id.
        schemas: The schemas of values that begin with an id, by id.
    """

    name: Literal["json", "avro", "bytes"] = "json"
    tombstones: Literal["malformed", "skip", "null"] = "malformed"
    avro: AvroSchema | None = None
    schemas: Mapping[int, AvroSchema] = field(default_factory=dict)

    def problems(self, declared: str | None) -> Iterator[str]:
        """Yield the errors in the format of a source. `declared` are the columns of the values as Spark DDL; None
        without a schema."""
        if self.name not in FORMATS:
            yield f"format is {self.name!r}, but must be json, avro or bytes"
            return
        if self.tombstones not in TOMBSTONES:
            yield f"tombstones is {self.tombstones!r}, but must be malformed, skip or null"
        if self.name != "avro" and (self.avro is not None or self.schemas):
            yield f'avro= and schemas= are of format="avro", and not of {self.name!r}'
            return
        try:
            yield from self._misfits(declared)
        except PipelineDefinitionError as error:
            yield str(error).rstrip(".")

    def _misfits(self, declared: str | None) -> Iterator[str]:
        if self.name == "avro":
            if self.avro is None and not self.schemas:
                yield 'format="avro" needs the schema, as avro= or, if values begin with the id of one, as schemas='
                return
            if odd := [each for each in self.schemas if not isinstance(each, int) or not 0 <= each < 2**32]:
                yield f"schemas= has {odd[0]!r}, but must have the id of each schema, a number"
                return
            for id_ in self.schemas:
                avro_columns(self._schemas()[id_], f"The schema {id_}")
            there = avro_columns(self._reader(), "avro=")
            for name, type_ in column_types(declared).items() if declared else ():
                yield from _unlike(name, type_, there)
        elif declared is None and self.name == "json":
            yield 'format="json" needs a schema='
        elif declared is not None:
            columns = column_types(declared)
            if self.name == "bytes" and [each.name for each in columns.values()] != ["binary"]:
                yield f'format="bytes" has one column, which is BINARY, and not {declared}'
            for name, type_ in columns.items() if self.name == "json" else ():
                if any(each.name == "map" and each.inner[0][1].name != "string" for each in type_.all()):
                    yield f"column {name!r} is a map whose keys are no STRING, which JSON does not have"

    def columns(self) -> str | None:
        """Return the columns of the value as Spark DDL, if the format defines them. Raise `PipelineDefinitionError`."""
        if self.name == "avro":
            return ddl_of_avro(self._reader(), "avro=")
        return BYTES if self.name == "bytes" else None

    def described(self) -> dict[str, Any]:
        """Return the options that are not the default, for `describe`."""
        options = {"tombstones": self.tombstones} if self.tombstones != "malformed" else {}
        if self.name == "avro":
            schemas = {str(id_): schema for id_, schema in sorted(self._schemas().items())}
            return {**options, "avro": self._reader(), **({"schemas": schemas} if schemas else {})}
        return options

    def decoder(self, columns: "pa.Schema") -> "Decoder":
        """Return a decoder of values into all their columns, because a record is validated as a whole."""
        if self.name == "bytes":
            from tidegate.kafka.values.byte_values import Bytes

            return Bytes(columns.names[0])
        if self.name == "avro":
            _require_fastavro()
            from tidegate.kafka.values.avro_values import AvroDecoder

            return AvroDecoder(columns, self._reader(), self._schemas(), self.tombstones)
        from tidegate.kafka.values.json_blocks import JsonDecoder

        return JsonDecoder(columns, self.tombstones)

    def encoder(self, columns: "pa.Schema") -> "Encoder":
        """Return an encoder of rows of these columns. Avro without a schema uses one in which each column may be
        null."""
        if self.name == "bytes":
            from tidegate.kafka.values.byte_values import Bytes

            return Bytes(columns.names[0])
        if self.name == "avro":
            _require_fastavro()
            from tidegate.kafka.values.avro_values import AvroEncoder

            if self.schemas:
                id_ = max(self.schemas)
                return AvroEncoder(columns, self._schemas()[id_], id_)
            return AvroEncoder(columns, self._reader() if self.avro is not None else schema_of(columns), None)
        from tidegate.kafka.values.json_writing import JsonEncoder

        return JsonEncoder(columns)

    def unwritable(self, columns: "Sequence[pa.Field[pa.DataType]]") -> list[str]:
        """Return a phrase for each column that Avro values cannot have, or that they lack."""
        import pyarrow as pa

        try:
            self.encoder(pa.schema(columns))
            there = self._reader()["fields"] if self.avro is not None or self.schemas else None
        except PipelineDefinitionError as error:
            return [str(error).rstrip(".")]
        if there is None:
            return []
        names, fields = [each.name for each in columns], {each["name"]: each for each in there}
        found = [f"column {name!r} is no field of the Avro schema" for name in names if name not in fields]
        missing = [name for name, each in fields.items() if name not in names and "default" not in each]
        return [*found, *(f"the stream has no column {name!r}, which the Avro schema needs" for name in missing)]

    def _schemas(self) -> dict[int, dict[str, Any]]:
        return {id_: parsed(schema, f"The schema {id_}") for id_, schema in self.schemas.items()}

    def _reader(self) -> dict[str, Any]:
        if self.avro is not None:
            return parsed(self.avro, "avro=")
        id_ = max(self.schemas)
        return parsed(self.schemas[id_], f"The schema {id_}")


def _require_fastavro() -> None:
    """Raise `NotInstalledError`, which also reaches the driver from a Spark task."""
    if find_spec("fastavro") is None:
        raise not_installed("fastavro") or ModuleNotFoundError("fastavro")


def schema_of(columns: "pa.Schema") -> dict[str, Any]:
    """Return an Avro schema for rows of these columns."""
    from tidegate.kafka.column_types import of_arrow

    return schema_of_columns({each.name: of_arrow(each.type) for each in columns}, "row")


def _unlike(name: str, type_: ColumnType, there: Mapping[str, ColumnType]) -> Iterator[str]:
    if name not in there:
        yield f"column {name!r} is no field of the Avro schema, which has {', '.join(there)}"
    elif type_ != there[name] and (there[name].name, type_.name) not in _WIDER:
        yield f"column {name!r} is {type_.ddl()} in schema=, and {there[name].ddl()} in the Avro schema"
