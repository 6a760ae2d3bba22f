"""Avro, a record at a time: without a header, or in the framing of schema registries, with a zero and an id."""

import struct
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.types as of
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException

from tidegate.kafka.values.decoded import TOMBSTONE, Decoded, Misfit
from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.sources.read_errors import AS_BEFORE

_FRAME = struct.Struct(">bI")
#: Logical types that Spark has, too. Other ones are read as their plain values.
_LOGICAL = ("date", "decimal", "timestamp-", "local-timestamp-m")
#: Errors of fastavro for a value that does not match its schema.
_UNREADABLE = (EOFError, ValueError, LookupError, TypeError, OverflowError, struct.error, ArithmeticError)

Schemas = Mapping[int, Mapping[str, Any]]


def checked(schema: Mapping[str, Any], what: str) -> Any:
    """Return a schema as fastavro uses it. Raise `PipelineDefinitionError`."""
    try:
        return fastavro.parse_schema(_plain(schema))
    except (SchemaParseException, LookupError, TypeError, ValueError) as error:
        raise PipelineDefinitionError(f"{what} is no Avro schema: {type(error).__name__}: {error}.") from error


def _plain(schema: Any) -> Any:
    """Return a schema without the logical types that Spark does not have."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = ("type", "items", "values", "fields")
    found = {name: _plain(each) if name in inner else each for name, each in schema.items()}
    if not str(found.get("logicalType", "")).startswith(_LOGICAL) or "nanos" in str(found.get("logicalType")):
        found.pop("logicalType", None)
    return found


class AvroDecoder:
    """See `Decoder`. Values are read by the schema that wrote them, as the columns of `reader`."""

    def __init__(self, columns: pa.Schema, reader: Mapping[str, Any], schemas: Schemas, tombstones: str) -> None:
        self._columns, self._tombstones = columns, tombstones
        self._reader = checked(reader, "avro=")
        self._writers = {id_: checked(schema, f"The schema {id_}") for id_, schema in schemas.items()}
        self._fitted = [(each.name, _fitted(each.type)) for each in columns]

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """See `Decoder`."""
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        misfits: list[Misfit] = []
        for place, value in enumerate(values):
            if value is None and self._tombstones == "skip":
                continue
            try:
                rows.append({} if value is None and self._tombstones == "null" else self._row(value))
                places.append(place)
            except MalformedRowsError as error:
                misfits.append(Misfit(place, str(error), value))
        try:
            batch = self._batch(rows)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            batch = self._one_by_one(rows, places, misfits, values)
        return Decoded(batch, np.array(places, np.int64), misfits)

    def _row(self, value: bytes | None) -> dict[str, Any]:
        """Return a row. Raise `MalformedRowsError`, whose text is the reason."""
        if value is None:
            raise MalformedRowsError(TOMBSTONE)
        content = BytesIO(value)
        writer = self._reader if not self._writers else self._writer(content.read(_FRAME.size))
        try:
            found = fastavro.schemaless_reader(content, writer, self._reader)
        except SchemaResolutionError as error:
            raise MalformedRowsError(f"its schema does not become that of avro=: {error}") from None
        except _UNREADABLE as error:
            raise MalformedRowsError(f"not Avro of its schema ({type(error).__name__}){_framed(value, self)}") from None
        if left := len(value) - content.tell():
            raise MalformedRowsError(f"not Avro of its schema: {left} bytes are left{_framed(value, self)}")
        assert isinstance(found, dict)
        return {name: found[name] if fit is None else fit(found[name]) for name, fit in self._fitted}

    def _writer(self, frame: bytes) -> Any:
        if len(frame) < _FRAME.size or frame[0] != 0:
            raise MalformedRowsError("it does not begin with a zero and the id of a schema")
        _, id_ = _FRAME.unpack(frame)
        if id_ not in self._writers:
            known = ", ".join(map(str, sorted(self._writers)))
            raise MalformedRowsError(f"it has the schema {id_}, which schemas= does not have (only {known})")
        return self._writers[id_]

    def _batch(self, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        arrays = [pa.array([row.get(each.name) for row in rows], each.type) for each in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _one_by_one(
        self, rows: list[dict[str, Any]], places: list[int], misfits: list[Misfit], values: Sequence[bytes | None]
    ) -> pa.RecordBatch:
        """Return the rows without those that Arrow refuses, which become misfits."""
        kept = []
        for row, place in zip(rows, list(places), strict=True):
            try:
                self._batch([row])
                kept.append(row)
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                misfits.append(Misfit(place, f"does not fit the schema: {error}", values[place]))
                places.remove(place)
        misfits.sort(key=lambda misfit: misfit.record)
        return self._batch(kept)


def _framed(value: bytes, decoder: AvroDecoder) -> str:
    """Return a hint for values that look like those of a registry, if no ids are declared."""
    if decoder._writers or len(value) <= _FRAME.size or value[0] != 0:
        return ""
    return f"; it begins like a value of the schema {_FRAME.unpack(value[: _FRAME.size])[1]}: give schemas= by id"


def _fitted(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of fastavro's value into one that Arrow takes; None for most types."""
    if of.is_map(kind):
        item = _fitted(kind.item_type) or (lambda value: value)
        return lambda value: None if value is None else [(key, item(each)) for key, each in value.items()]
    if of.is_list(kind) and (element := _fitted(kind.value_type)) is not None:
        return lambda value: None if value is None else [element(each) for each in value]
    if of.is_struct(kind):
        inner = {each.name: found for each in kind if (found := _fitted(each.type)) is not None}
        if inner:
            return lambda value: (
                None
                if value is None
                else {**value, **{name: found(value[name]) for name, found in inner.items() if name in value}}
            )
    return None


class AvroEncoder:
    """See `Encoder`. Values are framed if the schema has an `id_`."""

    def __init__(self, columns: pa.Schema, schema: Mapping[str, Any], id_: int | None) -> None:
        self._schema = checked(schema, "avro=")
        self._frame = b"" if id_ is None else _FRAME.pack(0, id_)
        self._plain = [(each.name, _written(each.type)) for each in columns]

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """See `Encoder`."""
        columns = [
            values if plain is None else list(map(plain, values))
            for name, plain in self._plain
            for values in [rows.column(name).to_pylist()]
        ]
        names = [name for name, _ in self._plain]
        return [self._encoded(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _encoded(self, row: dict[str, Any]) -> bytes:
        content = BytesIO(self._frame)
        content.seek(len(self._frame))
        try:
            fastavro.schemaless_writer(content, self._schema, row)
        except _UNREADABLE as error:
            raise MalformedRowsError(
                f"A row does not fit the Avro schema of the topic: {error}. {AS_BEFORE}Correct the schema, or the "
                "columns that the sink is given."
            ) from error
        return content.getvalue()


def _written(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the reverse of `_fitted`."""
    if of.is_map(kind):
        item = _written(kind.item_type) or (lambda value: value)
        return lambda value: None if value is None else {key: item(each) for key, each in value}
    if of.is_list(kind) and (element := _written(kind.value_type)) is not None:
        return lambda value: None if value is None else [element(each) for each in value]
    if of.is_struct(kind):
        inner = {each.name: found for each in kind if (found := _written(each.type)) is not None}
        if inner:
            return lambda value: (
                None if value is None else {**value, **{name: found(value[name]) for name, found in inner.items()}}
            )
    return None
