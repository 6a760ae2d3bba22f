"""Sinks in the commit whose tables lie in the store's database, in memory or on Postgres, and a pipeline that has them.

Nothing is unique in these tables: a row that is shown twice is there twice.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pasts import Past
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.schema import DropSchema
from worlds import MemorySink, small_pipeline

from tidegate.pipeline.definition import Pipeline
from tidegate.ports import CheckpointStore, CommitAttempt, CommitStatements, Participant, SinkCommit, StatementError
from tidegate.postgres.roles import RUNNING_ROLE
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId

SCHEMA = "mart"
Row = tuple[int, str]  # the checkpoint, and the path of a staged file


class Place(Protocol):
    """Where one table is: its statements, and what readers see."""

    def add(self, checkpoint_id: int, paths: Sequence[str]) -> list[Any]:
        """Rows, and that the table has the checkpoint."""

    def ids(self) -> Any:
        """Which checkpoints the table has, shown or put away."""

    def show(self, checkpoint_ids: Collection[int], shown: bool) -> Any:
        """Of these checkpoints, or put them away."""

    def read(self, away: bool = False) -> list[Row]: ...

    def by_itself(self, participant: Participant, confirm: Callable[[], None] = lambda: None) -> None:
        """In a transaction of its own, after the commit. Who changes the table holds it first, then confirms."""


@dataclass
class _Confirming:
    confirm: Callable[[], None]

    def run(self, statements: CommitStatements) -> None:
        self.confirm()

    def explain(self, error: StatementError) -> SinkError:
        raise AssertionError("it has no statements")


class InMemory:
    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name

    def add(self, checkpoint_id: int, paths: Sequence[str]) -> list[Any]:
        def rows(tables: Any) -> int:
            mine = tables.setdefault(self._name, {})
            mine |= {len(mine) + n: (checkpoint_id, path, False) for n, path in enumerate(paths)}
            return len(paths)

        def has(tables: Any) -> int:
            tables.setdefault(f"{self._name} has", {})[checkpoint_id] = True
            return 1

        return [rows, has]

    def ids(self) -> Any:
        return lambda tables: [(id_,) for id_ in tables.get(f"{self._name} has", {})]

    def show(self, checkpoint_ids: Collection[int], shown: bool) -> Any:
        def change(tables: Any) -> int:
            mine = tables.setdefault(self._name, {})
            mine |= {n: (id_, path, not shown) for n, (id_, path, _) in mine.items() if id_ in checkpoint_ids}
            return 1

        return change

    def read(self, away: bool = False) -> list[Row]:
        rows = self._store.tables.rows.get(self._name, {}).values()
        return sorted((id_, path) for id_, path, is_away in rows if is_away is away)

    def by_itself(self, participant: Participant, confirm: Callable[[], None] = lambda: None) -> None:
        with self._store.tables.changed_by([_Confirming(confirm), participant]):
            pass


class OnPostgres:
    """As `postgres.participants` has them, a transaction's statements are those of its connection."""

    def __init__(self, store: Any, name: str) -> None:
        self._engine = store._engine
        metadata = MetaData(schema=SCHEMA)
        self.rows = Table(
            name, metadata, Column("checkpoint_id", Integer), Column("path", Text), Column("away", Boolean)
        )
        self._has = Table(f"{name}_has", metadata, Column("checkpoint_id", Integer))
        metadata.create_all(self._engine)

    def add(self, checkpoint_id: int, paths: Sequence[str]) -> list[Any]:
        rows = [{"checkpoint_id": checkpoint_id, "path": path, "away": False} for path in paths]
        added = [insert(self.rows).values(rows)] if rows else []
        return [*added, insert(self._has).values(checkpoint_id=checkpoint_id)]

    def ids(self) -> Any:
        return select(self._has.c.checkpoint_id)

    def show(self, checkpoint_ids: Collection[int], shown: bool) -> Any:
        return update(self.rows).where(self.rows.c.checkpoint_id.in_(checkpoint_ids)).values(away=not shown)

    def read(self, away: bool = False) -> list[Row]:
        wanted = select(self.rows.c.checkpoint_id, self.rows.c.path).where(self.rows.c.away.is_(away))
        with self._engine.connect() as connection:
            return sorted((id_, path) for id_, path in connection.execute(wanted))

    def by_itself(self, participant: Participant, confirm: Callable[[], None] = lambda: None) -> None:
        with self._engine.begin() as connection:
            connection.execute(text(f"LOCK TABLE {SCHEMA}.{self._has.name} IN EXCLUSIVE MODE"))
            confirm()
            participant.run(_Statements(connection))


class _Statements:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: Any, parameters: Any = None) -> int:
        return self._connection.execute(statement, parameters).rowcount

    def query(self, statement: Any, parameters: Any = None) -> Any:
        return self._connection.execute(statement, parameters).all()


@contextmanager
def places(store: CheckpointStore, owner_url: str | None) -> Iterator[Any]:
    """`place(name)`. On Postgres in a schema of the running role, which the owner of the database makes."""
    if owner_url is None:
        yield lambda name: InMemory(store, name)
        return
    owner = create_engine(owner_url)
    with owner.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {RUNNING_ROLE}"))
    try:
        yield lambda name: OnPostgres(store, name)
    finally:
        with owner.begin() as connection:
            connection.execute(DropSchema(SCHEMA, cascade=True))
        owner.dispose()


@dataclass
class Bringing:
    """Rows of a checkpoint: `only_new` ones if it may have been here."""

    sink: "TableSink"
    checkpoint_id: int
    paths: tuple[str, ...]
    only_new: bool = False

    def run(self, statements: CommitStatements) -> None:
        self.sink.meanwhile()
        if self.only_new and (self.checkpoint_id,) in map(tuple, statements.query(self.sink.place.ids())):
            return
        for statement in self.sink.place.add(self.checkpoint_id, self.paths):
            statements.execute(statement)
        self.sink.afterwards()

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(f"{self.sink.name}: {error.message}")


@dataclass
class _Rewinding:
    sink: "TableSink"
    branch: Branch

    def run(self, statements: CommitStatements) -> None:
        self.sink.meanwhile()
        ids = [id_ for (id_,) in statements.query(self.sink.place.ids())]
        statements.execute(self.sink.place.show([id_ for id_ in ids if id_ in self.branch], True))
        statements.execute(self.sink.place.show([id_ for id_ in ids if id_ not in self.branch], False))

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(f"{self.sink.name}: {error.message}")


class TableSink(MemorySink):
    """`CommittingSink` and `RewindableSink`. `has_prepared` happens before a transaction of it, `meanwhile` and
    `afterwards` within each, before and after its statements. `acts` has what it was asked for."""

    commits = SinkCommit.IN_THE_COMMIT

    def __init__(self, place: Place, name: str = "out") -> None:
        super().__init__()
        self.place, self.name = place, name
        self.acts: list[str] = []
        self.has_prepared: Any = lambda: None
        self.meanwhile: Any = lambda: None
        self.afterwards: Any = lambda: None

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        self.acts.append(f"prepare {checkpoint_id}")
        self.has_prepared()
        return Bringing(self, checkpoint_id, tuple(handle.path for handle in staged))

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        self.acts.append(f"prepare rewind {checkpoint_id}")
        self.has_prepared()
        return _Rewinding(self, branch)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_commit(checkpoint_id)
        self.acts.append(f"commit {checkpoint_id}")
        bringing = Bringing(self, checkpoint_id, tuple(handle.path for handle in staged), only_new=True)
        self.place.by_itself(bringing, attempt.confirm)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_rewind(checkpoint_id)
        self.place.by_itself(_Rewinding(self, branch), attempt.confirm)

    def withdrawn(self) -> list[int]:
        return sorted({id_ for id_, _ in self.place.read(away=True)})

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        raise AssertionError("these tests keep what is put away")

    def shown(self) -> list[int]:
        """The checkpoint of each row that readers see."""
        return [id_ for id_, _ in self.place.read()]


class TablePast(Past):
    """Every sink stages a row with each checkpoint."""

    def __init__(self, store: CheckpointStore, sinks: dict[str, MemorySink], **config: Any) -> None:
        super().__init__(store, **{"retained": 9} | config)
        self.sinks = sinks
        self.restored = ()
        self.define()

    def define(self) -> None:
        """The pipeline, with the sinks as they are."""
        options, (first, *others) = self.pipeline.checkpoints, self.sinks
        assert first == "out"
        self.sink = self.sinks[first]
        self.pipeline = small_pipeline(self.sink)
        self.pipeline.checkpoints = options
        stream = _stream_of(self.pipeline)
        for name in others:
            stream.sink(name, self.sinks[name])
        self.reopen(self.store)

    def made(self, checkpoint_id: int, subtask: SubtaskId, attempt: int) -> Snapshot:
        name = subtask.operator_id.removesuffix("-sink")
        if name not in self.sinks or name == subtask.operator_id or subtask.subtask_index:
            return super().made(checkpoint_id, subtask, attempt)
        path = f"_staging/chk-{checkpoint_id}/0-{attempt}-{name}.parquet"
        self.sinks[name].staged[path] = checkpoint_id
        return Snapshot((StateHandle(path, HandleKind.STAGED, 1, 1, "0", checkpoint_id),))

    def shown(self) -> list[int]:
        """Checkpoints whose rows readers see; each sink shows the same, each row once."""
        seen = {
            name: sink.shown() if isinstance(sink, TableSink) else sorted(sink.visible)
            for name, sink in self.sinks.items()
        }
        (first, *others) = seen.values()
        assert all(other == first for other in others), seen
        return first


def _stream_of(pipeline: Pipeline) -> Any:
    (sink,) = (vertex for vertex in pipeline.vertices if vertex.name == "out")
    return sink.input
