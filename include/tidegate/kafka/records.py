"""The record of a topic that each row becomes: its key, headers, timestamp and value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.kafka.formats import Format
from tidegate.kafka.transactions import Produced
from tidegate.postgres_sink.names import DELETE

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows converted to Python objects at once.
_ROWS = 4096
#: How Arrow writes the type of a column of headers, as Spark makes it and as Parquet returns it.
_HEADERS = {
    f"list<{element}: struct<key: string{not_null}, value: binary>{element_null}>"
    for element in ("element", "item")
    for not_null in ("", " not null")
    for element_null in ("", " not null")
}


@dataclass(frozen=True, slots=True)
class Records:
    """Converts rows to records. `value` are the columns of the value. Every record has the headers `own`."""

    format: Format
    value: tuple[str, ...]
    key: tuple[str, ...]
    timestamp: str | None
    headers: str | None
    own: tuple[tuple[str, bytes], ...]

    def of(self, batch: "pa.RecordBatch") -> Iterator[Produced]:
        """Yield the records of some rows. The record of a deleted row has no value."""
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            keys, values, headers, times = self._keys(part), self._values(part), self._headers(part), self._times(part)
            for number, value in enumerate(values):
                key = keys[number] if keys else None
                yield Produced(key, value, headers[number], times[number] if times else 0)

    def _values(self, batch: "pa.RecordBatch") -> list[bytes | None]:
        rows = batch.select([name for name in self.value if name in batch.schema.names])
        if self.format.name == "bytes":
            return [_text(value) for value in rows.column(0).to_pylist()]
        if DELETE not in batch.schema.names:
            return self.format.encoder(rows.schema).encode(rows)
        import pyarrow as pa

        gone = [bool(each) for each in batch.column(DELETE).to_pylist()]
        there = rows.filter(pa.array([not each for each in gone], pa.bool_()))
        left = iter(self.format.encoder(rows.schema).encode(there))
        return [None if each else next(left) for each in gone]

    def _keys(self, batch: "pa.RecordBatch") -> list[bytes | None] | None:
        if not self.key:
            return None
        rows = batch.select(list(self.key))
        if is_plain(rows.schema):
            return [_text(value) for value in rows.column(0).to_pylist()]
        return Format().encoder(rows.schema).encode(rows)

    def _headers(self, batch: "pa.RecordBatch") -> list[list[tuple[str, bytes | None]]]:
        own: list[tuple[str, bytes | None]] = list(self.own)
        if self.headers is None or self.headers not in batch.schema.names:
            return [own] * batch.num_rows
        given: Sequence[Any] = batch.column(self.headers).to_pylist()
        return [[*own, *((each["key"], each["value"]) for each in row or ())] for row in given]

    def _times(self, batch: "pa.RecordBatch") -> list[int] | None:
        if self.timestamp is None or self.timestamp not in batch.schema.names:
            return None
        import pyarrow as pa

        times = batch.column(self.timestamp).cast(pa.timestamp("ms", batch.schema.field(self.timestamp).type.tz), False)
        return [each or 0 for each in times.cast(pa.int64()).to_pylist()]


def is_plain(key: "pa.Schema") -> bool:
    """Whether a key is the text or bytes of its only column, and not JSON."""
    import pyarrow.types as of

    tests = (of.is_integer, of.is_string, of.is_large_string, of.is_binary, of.is_large_binary)
    return len(key) == 1 and any(test(key.field(0).type) for test in tests)


def unwritable(columns: "pa.Schema", key: Sequence[str], timestamp: str | None, headers: str | None) -> list[str]:
    """Return a phrase for each column that a sink names and that is missing or has another type."""
    import pyarrow.types as of

    named = dict.fromkeys([*key, *(each for each in (timestamp, headers) if each is not None)])
    found = [f"the stream has no column {each!r}, which the sink names" for each in named if each not in columns.names]
    if timestamp in columns.names and not of.is_timestamp(kind := columns.field(timestamp).type):
        found.append(f"column {timestamp!r} is {kind}, and the timestamp of records is of a TIMESTAMP")
    if headers in columns.names and str(kind := columns.field(headers).type) not in _HEADERS:
        found.append(f"column {headers!r} is {kind}, and headers are an ARRAY<STRUCT<key: STRING, value: BINARY>>")
    return found


def _text(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()
