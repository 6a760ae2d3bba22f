"""`PostgresSink`: a table in Postgres that changes together with the checkpoint, or in one transaction after it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, MetaData, Table
from sqlalchemy.schema import DropTable

from tidegate.ports import Branch, CommitAttempt, Participant, SinkCommit, SinkInput, StateHandle, Withdrawn
from tidegate.postgres_sink import append, positions, tables
from tidegate.postgres_sink.columns import RowColumn, columns_of
from tidegate.postgres_sink.databases import connected
from tidegate.postgres_sink.loading import Loaded, load, loaded_tables
from tidegate.postgres_sink.names import CHECKPOINT, SCHEMA, Target, target_of
from tidegate.protocol.facts.errors import PipelineDefinitionError, SinkError
from tidegate.protocol.recovery.ownership import Owner
from tidegate.sinks.staged_parquet import StagedParquet
from tidegate.sinks.staging import staging_of

if TYPE_CHECKING:
    import pyarrow as pa

#: What follows the name of a table with loaded rows where it stands among the files of its checkpoint.
_LOADED = ".loaded"


@dataclass(frozen=True)
class PostgresSink(StagedParquet):
    """A table in Postgres. Without a connection it lies in the database of the checkpoints, and changes in the
    transaction that completes one: readers see the rows of a checkpoint in all such tables in the same instant. With a
    connection it changes after the checkpoint, in one transaction there.

    Rows are staged as Parquet, validated, loaded into a table of their own before the commit, and taken over by one
    statement. A restore takes the table back to exactly what it showed.

    Args:
        table: `name` or `schema.name`, without quotes; by default in the schema `public`.
        mode: `"append"`: each checkpoint adds rows. The table has a column `_checkpoint` with its id.
        connection: The name of a connection to another database, in Airflow or the environment.
        columns: Those of the rows that are written, by default all.
        create: Whether to make the table if it is not there.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import FileSource, Pipeline, PostgresSink

        orders = Pipeline("shop").source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        orders.sink("orders", PostgresSink("orders"))
        ```
    """

    table: str
    mode: Literal["append"] = "append"
    connection: str | None = None
    columns: Sequence[str] | None = None
    create: bool = True

    def __post_init__(self) -> None:
        target_of(self.table)
        if self.mode != "append":
            raise PipelineDefinitionError(
                f'PostgresSink({self.table!r}): the mode is {self.mode!r}, but must be "append".'
            )
        if isinstance(self.columns, str) or (self.columns is not None and not self.columns):
            raise PipelineDefinitionError(f"PostgresSink({self.table!r}): columns is a list of names.")

    @property
    def target(self) -> Target:
        return target_of(self.table)

    @property
    def commits(self) -> SinkCommit:
        return SinkCommit.IN_THE_COMMIT if self.connection is None else SinkCommit.AFTER_THE_COMMIT

    @property
    def input(self) -> SinkInput:
        return SinkInput.CHANGES

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. `create` is no part of it: it changes nothing of the rows."""
        place = f"postgres://{self.connection or 'tidegate_default'}/{self.target}"
        said = {"type": "PostgresSink", "path": place, "mode": self.mode}
        return said | ({} if self.columns is None else {"columns": list(self.columns)})

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`: also what a table that is there does not take, if the database can be reached."""
        names = columns.names
        found = super().unstorable(columns)
        found += [f"the stream has no column {name!r}" for name in self.columns or () if name not in names]
        found += [
            f"{name} is a name that the sink needs itself: rename that column"
            for name in (CHECKPOINT,)
            if name in names
        ]
        if found:
            return found
        try:
            with self._connected() as connection:
                existing = tables.look(connection, self.target)
                return [] if existing is None else self._problems(connection, existing, self._taken(columns))
        except SinkError:  # the first run finds out, before anything is visible
            return []

    # -- in the commit

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return append.Append(self.target, checkpoint_id, self._load(checkpoint_id, staged))

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return append.RewindAppended(self.target, self._kept(), checkpoint_id, branch)

    # -- after the commit

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Raises `SinkError`, `SupersededAttemptError`."""
        with self._connected() as connection:
            if positions.exists(connection) and positions.numbers(connection, self.target)[0] >= checkpoint_id:
                return
        loaded = self._load(checkpoint_id, staged)
        self._run(append.Append(self.target, checkpoint_id, loaded, attempt.number), attempt)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.RewindableSink`."""
        self._run(append.RewindAppended(self.target, self._kept(), checkpoint_id, branch, attempt.number), attempt)

    def _run(self, participant: Participant, attempt: CommitAttempt) -> None:
        with self._connected() as connection:
            attempt.confirm()
            participant.run(positions.OwnStatements(connection))

    def _load(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Loaded | None:
        """Rows in a table of their own, and the table that takes them over; None if there are none."""
        with self._connected() as connection:
            positions.make(connection)
        if not sum(handle.rows for handle in staged):
            return None
        schema = self.columns_of(staged)
        rows = self._taken(schema)
        with self._connected() as connection:
            self._made(connection, rows, checkpoint_id)
        names = [row.name for row in rows]
        batches = (batch.select(names) for batch in self.batches(staged))
        return load(self.connection, self.target, checkpoint_id, rows, batches)

    def _made(self, connection: Connection, rows: Sequence[RowColumn], checkpoint_id: int) -> None:
        existing = tables.look(connection, self.target)
        if existing is None:
            if not self.create:
                raise SinkError(
                    f"There is no table {self.target} for the rows of checkpoint {checkpoint_id}, or this role may not "
                    "use its schema. Nothing is visible, and the rows are staged and safe. Make it, or leave "
                    "create=False out; then repeat the finalize step."
                )
            tables.make(connection, self.target, rows, (), checkpoint=True)
        elif problems := self._problems(connection, existing, rows):
            raise SinkError(
                f"Table {self.target} does not take the rows of checkpoint {checkpoint_id}: {'; '.join(problems)}. "
                "Nothing is visible, and the rows are staged and safe. Then repeat the finalize step."
            )

    def _problems(self, connection: Connection, existing: tables.Existing, rows: Sequence[RowColumn]) -> list[str]:
        return tables.problems(connection, existing, rows, checkpoint=True)

    def _taken(self, schema: "pa.Schema") -> list[RowColumn]:
        """The columns that are written, in the order of the rows."""
        return [row for row in columns_of(schema) if self.columns is None or row.name in self.columns]

    def _kept(self) -> tuple[str, ...]:
        """The columns of the table that a restore moves, with a place for them beside it; none without a table."""
        with self._connected() as connection:
            positions.make(connection)
            existing = tables.look(connection, self.target)
            if existing is None:
                return ()
            append.make_withdrawn(connection, self.target, existing)
        return tuple(column.name for column in existing.columns if not column.generated)

    # -- what a restore would do

    def shown_beside(self, branch: Branch) -> list[Withdrawn]:
        with self._connected() as connection:
            if tables.look(connection, self.target) is None:
                return []
            return append.shown_beside(connection, self.target, branch)

    def withdrawn(self) -> list[int]:
        with self._connected() as connection:
            return append.withdrawn(connection, self.target)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        with self._connected() as connection:
            attempt.confirm()
            positions.lock(positions.OwnStatements(connection), self.target, attempt.number)
            append.delete_withdrawn(connection, self.target, checkpoint_ids)

    # -- whose it is

    def numbers(self) -> tuple[int, int]:
        with self._connected() as connection:
            return positions.numbers(connection, self.target)

    def owner(self) -> Owner | None:
        """See `ports.OwnedSink`."""
        with self._connected() as connection:
            return positions.owner(connection, self.target)

    def mark(self, owner: Owner) -> Owner:
        with self._connected() as connection:
            positions.make(connection)
            positions.mark(connection, self.target, owner)
            return positions.owner(connection, self.target) or owner

    def mark_anew(self, owner: Owner) -> None:
        with self._connected() as connection:
            positions.make(connection)
            positions.mark(connection, self.target, owner, anew=True)

    def is_used(self) -> bool:
        """Rows that others put there do not count: they stay."""
        with self._connected() as connection:
            return positions.numbers(connection, self.target)[0] > 0

    # -- what crashed attempts leave

    def staged_checkpoints(self) -> list[int]:
        ids = {self.target.checkpoint_of(name) for name in self._left()}
        return sorted({*super().staged_checkpoints(), *ids})

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        left = [name for name in self._left() if self.target.checkpoint_of(name) == checkpoint_id]
        return [
            *super().staged_paths(checkpoint_id),
            *(f"{staging_of(checkpoint_id)}/{name}{_LOADED}" for name in left),
        ]

    def discard(self, paths: Sequence[str]) -> None:
        loaded = [path for path in paths if path.endswith(_LOADED)]
        super().discard([path for path in paths if path not in loaded])
        if loaded:
            with self._connected() as connection:
                for path in loaded:
                    name = path.rpartition("/")[2].removesuffix(_LOADED)
                    if name.startswith(self.target.loaded_prefix):
                        connection.execute(DropTable(Table(name, MetaData(), schema=SCHEMA), if_exists=True))

    def _left(self) -> list[str]:
        """Tables with loaded rows of checkpoints that the table shows, or has gone beyond: nobody needs them."""
        with self._connected() as connection:
            shown, _ = positions.numbers(connection, self.target)
            names = loaded_tables(connection, self.target)
        return [name for name in names if self.target.checkpoint_of(name) <= shown]

    def _connected(self) -> Any:
        return connected(self.connection, f"table {self.target}")
