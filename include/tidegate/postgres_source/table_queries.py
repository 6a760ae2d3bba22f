"""Queries of the driver to the database: the ended transactions, and where to cut their rows. It reads no rows.

All queries run in one read-only transaction, so that the counted rows are those that its snapshot sees.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.postgres_sink.databases import engine_of, first_line, url_of
from tidegate.postgres_source import polls, servers, tables
from tidegate.postgres_source.positions import Part, Place, Position, parts_between
from tidegate.postgres_source.refusals import Reader
from tidegate.postgres_source.snapshots import NOTHING
from tidegate.postgres_source.statements import (
    PartStatements,
    before_all,
    compiled,
    make_index,
    without_place,
)

if TYPE_CHECKING:
    from tidegate.postgres_source.source import PostgresSource

#: The rows that one Spark task reads.
RANGE = 250_000
log = logging.getLogger(__name__)


class TableQueries:
    """A transaction for the queries of a source. Raises `PipelineDefinitionError`, `SourceChangedError`,
    `SourceUnavailableError`, `ConfigurationError`."""

    def __init__(self, source: "PostgresSource") -> None:
        self._source, self._reader = source, Reader(source.target)
        self._start = polls.Start.parse(source.start)
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        self.url = url_of(self._source.connection)
        try:
            engine = engine_of(self.url).execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._connection: Connection = self._opened.enter_context(engine.begin())
        except (DBAPIError, PoolTimeoutError) as error:
            raise self._reader.away(first_line(error)) from error
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        try:
            self._opened.__exit__(kind, error, traceback)
        except (DBAPIError, PoolTimeoutError) as broken:
            error = broken
        if isinstance(error, DBAPIError):
            raise self._reader.refused(error, self.url.username) from error

    def table(self, names: Sequence[str] | None) -> tables.KnownTable:
        """Return the table, which must be fit to be read. `names`: the wanted columns, None for all."""
        found = tables.find_table(self._connection, self._source.target, self._source.xid)
        if found is None:
            raise self._reader.no_table()
        if problems := tables.problems(found, self._source.key or (), names):
            raise self._reader.unfit(problems)
        return found

    def warn_unindexed(self, table: tables.KnownTable) -> None:
        for name in tables.unindexed(table):
            log.warning(
                "Table %s has no index that begins with %s, so each poll reads all of it: %s",
                *(name, table.xid, make_index(table, self._key(table))),
            )

    def _key(self, table: tables.KnownTable) -> tuple[str, ...]:
        names = table.key if self._source.key is None else self._source.key
        return tuple(name for name in names if name != table.xid)

    # -- polls

    def poll(
        self,
        stored: Mapping[str, Any] | None,
        names: Sequence[str] | None,
        max_rows: int | None,
        max_bytes: int | None,
    ) -> tuple[Mapping[str, Any] | None, int]:
        """Return the end of a poll, and the rows that it leaves for the next ones. For `names`, see `table`."""
        now, table = servers.moment(self._connection), self.table(names)
        position = polls.begin(self._reader, None if stored is None else Position.read(stored), self._start, now)
        self._require_own(table, now)
        if position.until is None:
            until, lsn = position.seen | now.ended, now.lsn
            left = self._scalar(self._of(table, position.part(until)).count())
        else:
            until, lsn, left = position.until, position.lsn, position.left
        if left == 0 and position.until is None:
            return stored, 0
        place, rows = None, left
        if max_bytes is not None:
            bound = max(1, max_bytes // tables.row_bytes(self._connection, table))
            max_rows = bound if max_rows is None else min(bound, max_rows)
        if max_rows is not None and left > max_rows:
            place, rows = self._cut(table, position, until, max_rows)
        if place is None or rows >= left:
            place, rows = None, left
        end = position.ended(until, rows, lsn) if place is None else position.to(place, until, rows, left - rows, lsn)
        before = NOTHING if stored is None else Position.read(stored).seen
        return replace(end, since=None if position.seen == before else position.seen).stored(), left - rows

    def _cut(self, table: tables.KnownTable, position: Position, until: Any, max_rows: int) -> tuple[Place | None, int]:
        """Return the place after about `max_rows` rows, and the number of rows up to it. Rows of one place stay
        together."""
        statements = self._of(table, position.part(until))
        row = self._connection.execute(statements.place(max_rows)).one_or_none()
        if row is None:
            return None, 0
        place = _place(statements.key, row)
        return place, self._scalar(self._of(table, position.part(until, place)).count())

    def _require_own(self, table: tables.KnownTable, now: servers.Moment) -> None:
        """Check that every row is of a transaction of this cluster."""
        if (id_ := self._connection.execute(before_all(table, now.xmax)).scalar()) is not None:
            raise self._reader.of_the_future(id_, now)
        key = self._key(table)
        if table.is_view and self._connection.execute(without_place(table, key)).first() is not None:
            raise self._reader.without_place(", ".join((table.xid, *key)))

    # -- polled rows

    def count(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> int:
        """Count the rows between two positions."""
        begin, until, table = self._known(start), Position.read(end), self.table(None)
        self._require_cluster(until)
        self._require_cluster(begin or until)
        return sum(self._scalar(self._of(table, part).count()) for part in parts_between(begin, until))

    def ranges(
        self, table: tables.KnownTable, names: Sequence[str], start: Mapping[str, Any] | None, end: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """Return what Spark's tasks read for a segment: ranges, each with its number of rows."""
        begin, until = None if start is None else Position.read(start), Position.read(end)
        self._require_cluster(until)
        rows = until.rows - (0 if begin is None else begin.rows)
        if until.since is not None:
            begin = Position(until.cluster, until.lsn, until.since)
        (part,) = parts_between(begin, until)
        cuts = self._cuts(table, part, rows)
        bounds = zip([(part.after, 0), *cuts], [*cuts, (part.last, rows)], strict=True)
        return [
            self._range(table, names, Part(part.seen, part.until, after, last), count - before, until.lsn)
            for (after, before), (last, count) in bounds
            if count > before
        ]

    def _range(
        self, table: tables.KnownTable, names: Sequence[str], part: Part, rows: int, lsn: str
    ) -> Mapping[str, Any]:
        is_strict = self._source.on_change == "fail"
        statements = self._of(table, part)
        sql = compiled(statements.rows(names, changes=is_strict and not table.is_view))
        return {"sql": sql, "rows": rows if is_strict else None, "lsn": lsn}

    def _cuts(self, table: tables.KnownTable, part: Part, rows: int) -> list[tuple[Place, int]]:
        if rows <= RANGE:
            return []
        statements = self._of(table, part)
        found = [(_place(statements.key, row), row[-1]) for row in self._connection.execute(statements.cuts(RANGE))]
        return [(place, number) for place, number in found if number < rows]

    def _require_cluster(self, position: Position) -> None:
        polls.begin(self._reader, position, self._start, servers.moment(self._connection))

    def _of(self, table: tables.KnownTable, part: Part) -> PartStatements:
        return PartStatements(table, part, self._key(table))

    def _known(self, stored: Mapping[str, Any] | None) -> Position | None:
        """Return the start of a segment. That of the first poll is the position of `start=`."""
        if stored is not None:
            return Position.read(stored)
        now = servers.moment(self._connection)
        return Position(now.cluster, now.lsn, self._start.seen) if self._start.cluster is not None else None

    def _scalar(self, statement: Any) -> int:
        return int(self._connection.execute(statement).scalar_one())


def _place(key: Sequence[str], row: Any) -> Place:
    return int(row[0]), tuple(zip(key, row[1 : 1 + len(key)], strict=True))
