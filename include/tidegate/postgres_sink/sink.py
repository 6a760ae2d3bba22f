"""`PostgresSink`: a table in Postgres that changes together with the checkpoint, or in one transaction after it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from sqlalchemy import Connection

from tidegate.ports import Branch, CommitAttempt, Participant, SinkCommit, SinkInput, StateHandle, TableFiles, Withdrawn
from tidegate.postgres_sink import positions, tables
from tidegate.postgres_sink.columns import RowColumn, columns_of, unusable_names, with_deletes
from tidegate.postgres_sink.databases import carry_out, connected, url_of
from tidegate.postgres_sink.loading import LOADED, NUMBER, Loaded, drop, left_over, load, require_driver
from tidegate.postgres_sink.modes import Appending, ChangingMode, Mode, Replacing, Upserting
from tidegate.postgres_sink.names import DELETE, Target, target_of
from tidegate.postgres_sink.reading import RowsAt, no_table
from tidegate.postgres_sink.refusals import Occasion, forward, rewind, unfit
from tidegate.postgres_sink.replace import Filled, Replace, content_of, files_at, fill, has
from tidegate.protocol.facts.errors import (
    ConfigurationError,
    PipelineDefinitionError,
    SinkUnavailableError,
)
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import gone_first, is_whole
from tidegate.sinks.staged_parquet import StagedParquet, StagedParquetWriter
from tidegate.sinks.staging import staging_of

if TYPE_CHECKING:
    import pyarrow as pa

_INPUTS = {"append": SinkInput.CHANGES, "upsert": SinkInput.UPSERTS, "replace": SinkInput.CURRENT}


@dataclass(frozen=True)
class PostgresSink(StagedParquet):
    """A table in Postgres. Without a connection it is in the metadata database, and changes in the
    transaction that completes a checkpoint, so readers see the rows of a checkpoint in all such tables in the same
    instant. With a connection it changes after the checkpoint, in one transaction there.

    Rows are staged as Parquet, validated, loaded into a table of their own before the commit, and taken over by one
    statement. A restore takes the table back to exactly the rows that it had.

    Args:
        table: `name` or `schema.name`, without quotes; by default in the schema `public`.
        mode: `"append"`: each checkpoint adds rows, with its id in a column `_checkpoint`. `"upsert"`: each checkpoint
            replaces the rows of its keys, and removes those that the state of the operator before it no longer has.
            Behind anything but state, a row whose column `_delete` is true removes its key. `"replace"`: each
            checkpoint that changes an operator's state replaces the whole table by all its current rows.
        connection: The name of a connection to another database, in Airflow or the environment.
        key: The columns that identify a row, with `"upsert"`. Behind an operator that keeps state, they are the
            operator's key columns, as renamed by transforms. They are never null.
        columns: The columns of the rows to write, by default all.
        create: Whether to make the table if it does not exist.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import FileSource, Pipeline, PostgresSink, sum_

        orders = Pipeline("shop").source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        orders.sink("orders", PostgresSink("orders"))
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        totals.sink("totals", PostgresSink("totals", mode="upsert", key="customer"))
        ```
    """

    table: str
    mode: Literal["append", "upsert", "replace"] = "append"
    connection: str | None = None
    key: str | Sequence[str] | None = None
    columns: Sequence[str] | None = None
    create: bool = True

    def __post_init__(self) -> None:
        target_of(self.table)
        if self.mode not in ("append", "upsert", "replace"):
            self._refuse(f'the mode is {self.mode!r}, but must be "append", "upsert" or "replace"')
        if isinstance(self.columns, str) or (self.columns is not None and not self.columns):
            self._refuse("columns is a list of names")
        if self.mode == "upsert" and not self.keys:
            self._refuse('mode="upsert" needs key=, the columns that identify a row')
        if self.mode != "upsert" and self.key is not None:
            self._refuse('key= is for mode="upsert"')
        if self.columns is not None and (missing := [name for name in self.keys if name not in self.columns]):
            self._refuse(f"columns lacks {', '.join(missing)}, which the key names")

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"PostgresSink({self.table!r}): {why}.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    @property
    def _mode(self) -> Mode:
        return Replacing(self.target) if self.mode == "replace" else self._changing

    @property
    def _changing(self) -> ChangingMode:
        return Appending(self.target) if self.mode == "append" else Upserting(self.target, self.keys)

    @property
    def target(self) -> Target:
        return target_of(self.table)

    @property
    def commits(self) -> SinkCommit:
        return SinkCommit.IN_THE_COMMIT if self.connection is None else SinkCommit.AFTER_THE_COMMIT

    @property
    def input(self) -> SinkInput:
        return _INPUTS[self.mode]

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. `create` is left out: it does not change the rows."""
        place = f"postgres://{self.connection or 'tidegate_default'}/{self.target}"
        description: dict[str, Any] = {"type": "PostgresSink", "path": place, "mode": self.mode}
        description |= {"key": list(self.keys)} if self.keys else {}
        return description | ({} if self.columns is None else {"columns": list(self.columns)})

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`. Also checks an existing table, if the database can be reached."""
        names = columns.names
        found = super().unstorable(columns)
        wanted = dict.fromkeys((*(self.columns or ()), *self.keys))
        found += [f"the stream has no column {name!r}, which the sink names" for name in wanted if name not in names]
        reserved = (NUMBER, *self._mode.reserved())
        found += [
            f"{name} is a name that the sink needs itself: rename that column" for name in reserved if name in names
        ]
        found += unusable_names(names)
        if found:
            return found
        require_driver()
        try:
            with self._connected() as connection:
                existing = tables.find_table(connection, self.target)
                if existing is None:
                    return [] if self.create else [f"there is no table {self.target}, and create=False: make it"]
                return self._problems(connection, existing, self._taken(columns))
        except (SinkUnavailableError, ConfigurationError):  # the first run finds out, before anything is visible
            return []

    def writer(self) -> StagedParquetWriter:
        """See `ports.Sink`. Raise `NotInstalledError` before rows are staged that could not be loaded."""
        require_driver()
        return super().writer()

    # -- in the commit

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return self._forward(checkpoint_id, staged, None)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return self._back(checkpoint_id, branch, staged, None)

    # -- after the commit

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Raise `SinkError`, `SupersededAttemptError`."""
        with self._connected() as connection:
            if positions.applied(connection, self.target).has(checkpoint_id):
                return
        carry_out(self.connection, self._forward(checkpoint_id, staged, attempt), self.target, attempt)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.RewindableSink`."""
        carry_out(self.connection, self._back(checkpoint_id, branch, staged, attempt), self.target, attempt)

    def _forward(self, id_: int, staged: Sequence[StateHandle], attempt: CommitAttempt | None) -> Participant:
        """Return the participant of a checkpoint. Without an attempt, it is for the transaction of the commit."""
        number = None if attempt is None else attempt.number
        occasion = forward(self.target, id_, number)
        if self.mode == "replace":
            filled = self._filled(occasion, id_, staged, attempt)
            return Replace(self.target, id_, content_of(staged), filled, occasion, False, number)
        loaded = self._load(occasion, id_, staged, attempt)
        return self._changing.forward(self._existing(), id_, loaded, number, is_whole(staged))

    def _back(
        self, id_: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt | None
    ) -> Participant:
        number = None if attempt is None else attempt.number
        if self.mode == "replace":
            occasion = rewind(self.target, id_, number)
            filled = self._filled(occasion, id_, staged, attempt)
            return Replace(self.target, id_, content_of(staged), filled, occasion, True, number)
        return self._changing.rewind(self._existing(), id_, branch, number)

    def _filled(
        self, occasion: Occasion, id_: int, staged: Sequence[StateHandle], attempt: CommitAttempt | None
    ) -> Filled | None:
        """Fill a table with all these rows; None if the present table has them already."""
        with self._connected() as connection:
            positions.make(connection)
            if has(connection, self.target, content_of(staged)):
                return None
        loaded = self._load(occasion, id_, staged, attempt)
        with connected(self.connection, self.target, occasion) as connection:
            return fill(connection, self.target, id_, loaded)

    def _load(
        self, occasion: Occasion, id_: int, staged: Sequence[StateHandle], attempt: CommitAttempt | None
    ) -> Loaded | None:
        """Load rows into a table of their own, and make the sink's table if needed; None if there are no rows."""
        with self._connected() as connection:
            positions.make(connection)
        if not staged or (self.mode != "replace" and not sum(handle.rows for handle in staged)):
            return None
        rows = self._taken(self.columns_of(gone_first(staged)))
        with self._connected() as connection:
            self._made(connection, rows, occasion)
        loaded = load(self.connection, self.target, id_, rows, self._selected(rows, staged, attempt), occasion)
        with connected(self.connection, self.target, occasion) as connection:
            return self._mode.check(connection, loaded)

    def _selected(
        self, rows: Sequence[RowColumn], staged: Sequence[StateHandle], attempt: CommitAttempt | None
    ) -> "Iterator[pa.RecordBatch]":
        names = [row.name for row in rows]
        for batch in self.batches(staged):
            if attempt is not None:
                attempt.keep()
            yield with_deletes(batch, names).select(names)

    def _made(self, connection: Connection, rows: Sequence[RowColumn], occasion: Occasion) -> None:
        existing = tables.find_table(connection, self.target)
        if existing is not None:
            if problems := self._problems(connection, existing, rows):
                raise unfit(occasion, problems)
        elif self.create:
            shown = self._mode.shown(rows)
            tables.make(connection, self.target, shown, self.keys, checkpoint=self._mode.keeps_checkpoint)
        else:
            raise unfit(occasion, ["it does not exist, and create=False: make it, or let the sink make it"])

    def _problems(self, connection: Connection, existing: tables.Existing, rows: Sequence[RowColumn]) -> list[str]:
        shown, checkpoint = self._mode.shown(rows), self._mode.keeps_checkpoint
        return [*tables.problems(connection, existing, shown, checkpoint), *self._mode.problems(connection, existing)]

    def _taken(self, schema: "pa.Schema") -> list[RowColumn]:
        """Return the columns that are written, in the order of the rows."""
        wanted = None if self.columns is None else {*self.columns, DELETE}
        return [row for row in columns_of(schema) if wanted is None or row.name in wanted]

    def _existing(self) -> tables.Existing | None:
        """Return the table as it is, and make its side tables; None if there is no table."""
        with self._connected() as connection:
            positions.make(connection)
            existing = tables.find_table(connection, self.target)
            if existing is not None:
                self._mode.make(connection, existing)
        return existing

    # -- the plan of a restore

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        with self._connected() as connection:
            if tables.find_table(connection, self.target) is None:
                return []
            return self._mode.shown_outside(connection, branch)

    def withdrawn(self) -> list[int]:
        with self._connected() as connection:
            return self._mode.withdrawn(connection)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        with self._connected() as connection:
            attempt.confirm()
            positions.lock(positions.OwnStatements(connection), self.target, attempt.number)
            self._mode.delete_withdrawn(connection, checkpoint_ids)

    def forget(self, kept: Collection[int]) -> None:
        """See `ports.JournalingSink`. A restore needs the previous rows of all later checkpoints, so those since the
        oldest stay."""
        with self._connected() as connection:
            self._mode.forget(connection, min(kept))

    def shown_checkpoint(self) -> int | None:
        """See `ports.PositionedSink`."""
        with self._connected() as connection:
            return positions.shown_by_table(connection, self.target)

    # -- reading

    def read_at(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None) -> RowsAt | TableFiles:
        """See `ports.ReadableAtSink`."""
        if self.mode == "replace":
            rows = self.columns_of(staged) if staged else None
            return files_at(self.root, self.target, checkpoint_id, staged, rows, self.columns)
        with self._connected() as connection:
            existing = tables.find_table(connection, self.target)
            if existing is None:
                raise no_table(self.target, checkpoint_id)
            rows = self._changing.rows_at(connection, existing, branch)
        types = {column.name: column.type for column in existing.columns}
        shown = {column.name: types[column.name] for column in rows.selected_columns}
        return RowsAt(url_of(self.connection), self.target, checkpoint_id, rows, shown)

    # -- ownership

    def numbers(self) -> tuple[int, int]:
        with self._connected() as connection:
            return positions.numbers(connection, self.target)

    def owner(self) -> Owner | None:
        """See `ports.OwnedSink`."""
        with self._connected() as connection:
            return positions.owner(connection, self.target)

    def mark(self, owner: Owner) -> Owner:
        with self._connected() as connection:
            return positions.mark(connection, self.target, owner)

    def mark_anew(self, owner: Owner) -> None:
        with self._connected() as connection:
            positions.mark(connection, self.target, owner, anew=True)

    def is_used(self) -> bool:
        """Whether a checkpoint has written rows. Rows of other writers do not count, because they stay."""
        with self._connected() as connection:
            return positions.numbers(connection, self.target)[0] > 0

    # -- leftovers of crashed attempts

    def staged_checkpoints(self) -> list[int]:
        with self._connected() as connection:
            return sorted({*super().staged_checkpoints(), *left_over(connection, self.target)})

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        with self._connected() as connection:
            left = left_over(connection, self.target).get(checkpoint_id, [])
        return [*super().staged_paths(checkpoint_id), *(f"{staging_of(checkpoint_id)}/{path}" for path in left)]

    def discard(self, paths: Sequence[str]) -> None:
        loaded = [path for path in paths if path.endswith(LOADED)]
        super().discard([path for path in paths if path not in loaded])
        if loaded:
            with self._connected() as connection:
                drop(connection, self.target, loaded)

    def _connected(self) -> Any:
        return connected(self.connection, self.target)
