"""`PostgresSource`: the rows that are inserted into a table in Postgres."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidegate.ports import ReadableStorage, ReadSince, Segment, Snapshot
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.postgres_sink.names import Target, target_of
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.protocol.facts.records import Pending
from tidegate.protocol.schema.ddl import columns_of
from tidegate.sources.range_source import Position, RangeSource, RangesReader

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.postgres_source.table_queries import TableQueries


class PostgresSource(RangeSource):
    """A table in Postgres to which rows are inserted: events, an outbox, the changes of another table. Each checkpoint
    reads the rows of the transactions that have committed since the one before, each row once, whatever the order of
    the commits.

    A column of the table has the transaction of each row: `xid xid8 NOT NULL DEFAULT pg_current_xact_id()`, with an
    index on it and the key. Rows must not be updated, nor deleted before they are read.

    Args:
        table: `schema.name`, or `name` in the schema public: a table, also a partitioned one, or a view.
        connection: The name of a connection to the database, in Airflow or the environment. By default the
            metadata database.
        xid: The column with the transaction of each row, of type xid8.
        key: The columns that identify a row within a transaction, so that a part of its rows can be read. By default
            the primary key.
        start: The first rows to read: with `"earliest"` the whole table. Otherwise a cluster and a snapshot, such as
            `"7713341419288827464/1 766:768:766"`: the rows of transactions that the snapshot does not see.
        on_change: The treatment of rows that are updated or deleted after a checkpoint began to read them: `"fail"`
            fails the checkpoint, `"ignore"` reads them as they are.
        schema: The columns: Spark DDL, a pyspark `StructType` or a pydantic model. By default all columns that the
            table has, read from the database when the pipeline is checked, planned or run.
        max_rows: The rows that one checkpoint reads at most.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import Pipeline, PostgresSink, PostgresSource, sum_

        outbox = PostgresSource("shop.outbox", "shop", schema="id BIGINT, customer STRING, cents BIGINT")
        orders = Pipeline("orders").source("orders", outbox)
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        totals.sink("totals", PostgresSink("totals", mode="upsert", key="customer"))
        ```
    """

    def __init__(
        self,
        table: str,
        connection: str | None = None,
        xid: str = "xid",
        *,
        key: str | Sequence[str] | None = None,
        start: str = "earliest",
        on_change: Literal["fail", "ignore"] = "fail",
        schema: Schema | None = None,
        max_rows: int | None = None,
    ) -> None:
        self.table, self.connection, self.xid, self.start, self.on_change = table, connection, xid, start, on_change
        self.key = None if key is None else ((key,) if isinstance(key, str) else tuple(key))
        self.max_rows = max_rows
        self._declared = None if schema is None else ddl_of(schema)
        self._ddl: str | None = None
        self._pending: dict[int, Pending] = {}
        self._check()

    def _check(self) -> None:
        from tidegate.postgres_source.polls import Start

        _ = self.target
        if self.on_change not in ("fail", "ignore"):
            self._refuse(f'on_change is {self.on_change!r}, but must be "fail" or "ignore"')
        if self.key is not None and (not self.key or self.xid in self.key):
            self._refuse(f"key= needs a column, and none is {self.xid!r}, which comes before them")
        if self.max_rows is not None and self.max_rows < 1:
            self._refuse(f"max_rows is {self.max_rows}, but must be at least 1")
        try:
            Start.parse(self.start)
        except ValueError:
            self._refuse(
                f'start is {self.start!r}, but must be "earliest", or a cluster and a snapshot, such as '
                '"7713341419288827464/1 766:768:766"'
            )

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"PostgresSource({self.table!r}): {why}.")

    @property
    def target(self) -> Target:
        return target_of(self.table, "PostgresSource")

    @property
    def declared_schema(self) -> str | None:
        """See `ports.DiscoveringSource`."""
        return self._declared

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """The columns, as declared or as the table has them when this is first read."""
        if self._ddl is None:
            self._ddl = self._columns_of_table() if self._declared is None else self._declared
        return self._ddl

    def _columns_of_table(self) -> str:
        from tidegate.postgres_source.columns import ddl_of_table

        with self._queries() as queries:
            return ddl_of_table(queries.table(None).columns)

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in columns_of(ddl_of(self.schema))]

    def describe(self) -> dict[str, Any]:
        """See `ports.Source`."""
        description: dict[str, Any] = {
            "type": "PostgresSource",
            "path": f"postgres://{self.connection or 'tidegate_default'}/{self.target}",
            "xid": self.xid,
            "start": self.start,
            "on_change": self.on_change,
            "max_rows": self.max_rows,
        }
        description |= {} if self.key is None else {"key": list(self.key)}
        return description if self._declared is None else {**description, "schema": self._declared}

    def problems(self) -> list[str]:
        """See `ports.CheckedSource`. Raise `NotInstalledError`."""
        self._queries()
        try:
            with self._queries() as queries:
                queries.warn_unindexed(queries.table(None if self._declared is None else self._names))
        except (SourceUnavailableError, ConfigurationError):  # the first run finds out
            return []
        except CheckpointError as error:
            return [str(error)]
        return []

    # -- ranges of transactions

    def latest(self, split: int, position: Position) -> Position:
        """See `RangeSource`. Raise `PipelineDefinitionError`, `SourceChangedError`, `SourceUnavailableError`."""
        return self.latest_within(split, position, None)

    def latest_within(self, split: int, position: Position, max_bytes: int | None) -> Position:
        """See `RangeSource`."""
        names = None if self._declared is None else self._names
        with self._queries() as queries:
            end, left = queries.poll(position, names, self.max_rows, max_bytes)
        self._pending[split] = Pending(left, "rows")
        return end

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`."""
        return self._pending.get(split)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """See `ports.BacklogSource`."""
        return split in self._pending and self._pending[split].pieces > 0

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`."""
        start, end = (None if one is None or one.position is None else one.position["to"] for one in (restored, taken))
        if end in (None, start):
            return ReadSince(0, 0, ())
        then = end["rows"] - (0 if start is None else start["rows"])
        try:
            with self._queries() as queries:
                now = queries.count(start, end)
        except SourceChangedError:
            return ReadSince(then, 0, (f"all rows of table {self.target}",))
        gone = then - now
        rows = "row" if gone == 1 else "rows"
        return ReadSince(now, 0, (f"{gone} {rows} of table {self.target}",) if gone > 0 else ())

    def read_between(self, split: int, start: Position, end: Position) -> "Iterator[pa.RecordBatch]":
        """See `RangeSource`. Reads the bounds first, so Spark's tasks use `arrow_reader` instead."""
        reader = self._reader([(start, end)])
        for ranged in reader.ranges:
            yield from reader.source.read_between(split, None, ranged["to"])

    def arrow_reader(self, segments: Sequence[Segment]) -> RangesReader:
        """See `ports.ArrowSource`. The ranges are read in parallel."""
        return self._reader([(segment.reference["from"], segment.reference["to"]) for segment in segments])

    def _reader(self, bounds: "Sequence[tuple[Position, Position]]") -> RangesReader:
        from tidegate.postgres_source.rows import PostgresReader, PostgresRows

        with self._queries() as queries:
            table = queries.table(self._names)
            ranges = [ranged for start, end in bounds for ranged in queries.ranges(table, self._names, start, end)]
        rows = PostgresRows(self.target, queries.url, self.schema, self.describe())
        return PostgresReader(rows, tuple({"split": 0, "from": None, "to": ranged} for ranged in ranges))

    def _queries(self) -> "TableQueries":
        """Raise `NotInstalledError` before rows are polled that could not be read."""
        from tidegate.postgres_sink.loading import require_driver
        from tidegate.postgres_source.table_queries import TableQueries

        require_driver()
        return TableQueries(self)
