"""Rows of a range as Arrow, read by Spark's tasks, which need ADBC for Postgres and access to the database.

COPY returns them in binary form, a few megabytes at a time, however many there are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of
from sqlalchemy import URL

from tidegate.ports.declared_schemas import Schema
from tidegate.postgres_sink.copying import copying
from tidegate.postgres_sink.names import Target
from tidegate.postgres_source.columns import nested, unreadable
from tidegate.postgres_source.refusals import Reader
from tidegate.postgres_source.statements import CHANGED
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.range_source import RangeSource, RangesReader
from tidegate.sources.read_errors import AS_BEFORE

#: The bytes of one batch.
_BYTES = 4 << 20
#: The check that a standby has replayed the rows, and settings so that text does not depend on those of the role.
_BEFORE = (
    "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= '{}'::pg_lsn, set_config('timezone', 'UTC', true), "
    "set_config('datestyle', 'ISO', true), set_config('transaction_read_only', 'on', true)"
)


@dataclass
class PostgresRows(RangeSource):
    """Ranges of a table, each of which ends with the statement that reads it. `described` is the description of the
    source that wants them, `wanted` the types of the columns. The URL is not shown, because it has a password."""

    target: Target
    url: URL = field(repr=False)
    schema: Schema
    described: Mapping[str, Any]
    wanted: pa.Schema | None = None

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        from adbc_driver_manager import Error

        reader = Reader(self.target)
        try:
            yield from self._batches(reader, end)
        except Error as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
            message = lines[0].rpartition("ERROR:")[2].removeprefix("IO: [libpq] ").strip().rstrip(".")
            state = getattr(error, "sqlstate", None) or ""
            raise reader.explained(state, message, self.url.username, not state) from error

    def _batches(self, reader: Reader, end: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        found = changed = 0
        with copying(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(_BEFORE.format(end["lsn"]))
            if cursor.fetchall()[0][0] is not True:
                raise reader.behind()
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BYTES)})
            cursor.execute(end["sql"])
            for batch in cursor.fetch_record_batch():
                found += batch.num_rows
                if CHANGED in batch.schema.names:
                    changed += pc.sum(batch[CHANGED]).as_py() or 0
                    batch = batch.drop_columns([CHANGED])
                if changed:
                    raise reader.changed(changed)
                yield self._read(batch)
            connection.rollback()
        if end["rows"] not in (None, found):
            raise reader.fewer(found, end["rows"])

    def _read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = {} if self.wanted is None else {each.name: each.type for each in self.wanted}
        if (name := unreadable(batch)) is not None:
            raise MalformedRowsError(
                f"Table {self.target} has a time in column {name!r} that is infinite or before the year 1, which Spark "
                f"does not have. {AS_BEFORE}Correct the value, or leave the column out of the schema= of its source."
            )
        arrays = []
        for field_ in batch.schema:
            column, kind = batch[field_.name], kinds.get(field_.name)
            if kind is not None and of.is_nested(kind):
                try:
                    column = nested(column, kind)
                except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
                    raise MalformedRowsError(
                        f"Table {self.target} has a value in column {field_.name!r} that is not {kind}, its type in "
                        f"the schema: {error}. {AS_BEFORE}Correct the value, or declare the column as STRING."
                    ) from error
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def describe(self) -> dict[str, Any]:
        return dict(self.described)

    def _range(self, split: int, start: Any, end: Any) -> str:
        return f"table {self.target}"


@dataclass(frozen=True)
class PostgresReader(RangesReader):
    """Ranges of `PostgresRows`, with the wanted types added, because nested values arrive as JSON."""

    source: PostgresRows

    def read_one(self, ranged: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield from RangesReader(replace(self.source, wanted=schema), self.ranges).read_one(ranged, schema)
