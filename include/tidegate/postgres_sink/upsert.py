"""A table with one row a key. Each checkpoint replaces or removes the rows of its keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, TextClause, and_, delete, exists, func, or_, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.schema import DropTable

from tidegate.ports import Branch, CommitStatements, StatementError
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.journal import Journal
from tidegate.postgres_sink.loading import NUMBER, Loaded
from tidegate.postgres_sink.names import DELETE, Target
from tidegate.postgres_sink.refusals import forward, lost_rows, refused, rewind
from tidegate.postgres_sink.side_tables import readable
from tidegate.postgres_sink.tables import quoted, statement
from tidegate.protocol.facts.errors import CheckpointError, RowsRefusedError


@dataclass(frozen=True, slots=True)
class Upsert:
    """See `ports.Participant`. Writes the rows of a checkpoint, once. Without `loaded` there are none. If they are
    `whole`, the table keeps no others, unless it had rows before it was this sink's. Other writers wait until the
    transaction has ended, readers do not."""

    journal: Journal | None
    target: Target
    checkpoint_id: int
    loaded: Loaded | None
    attempt: int | None = None
    whole: bool = False

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if found.applied.has(self.checkpoint_id):
            return
        replaces = self.whole and found.applied.newest > 0
        if self.journal is not None and (self.loaded is not None or replaces):
            statements.execute(lock_table(self.target))
            if replaces:
                self._remove_others(statements, self.journal)
            if self.loaded is not None:
                self._take_over(statements, self.loaded, self.journal)
        applied = found.applied.with_commit(self.checkpoint_id)
        positions.show(statements, self.target, self.checkpoint_id, applied, self.attempt, has_all=self.whole)

    def _remove_others(self, statements: CommitStatements, journal: Journal) -> None:
        """Remove the rows of keys that are not loaded."""
        table = journal.table
        which = and_(*(table.c[name].is_not(None) for name in journal.key))
        if self.loaded is not None:
            which = and_(which, ~exists().where(journal.same_key(self.loaded.table, table)))
        others = select(*(table.c[name] for name in journal.key)).where(which).subquery("others")
        journal.note(statements, journal.before, self.checkpoint_id, others)
        statements.execute(delete(table).where(which))

    def _take_over(self, statements: CommitStatements, loaded: Loaded, journal: Journal) -> None:
        found = statements.query(select(func.count()).select_from(loaded.table))[0][0]
        if found != loaded.rows:
            raise lost_rows(self.target, self.checkpoint_id, found, loaded.rows)
        journal.note(statements, journal.before, self.checkpoint_id, loaded.table)
        columns = [column for column in loaded.columns if column.name != DELETE]
        names = [column.name for column in columns]
        table, rows = readable(self.target, names), loaded.table
        stay: ColumnElement[bool] = true()
        if len(columns) < len(loaded.columns):
            statements.execute(delete(table).where(journal.same_key(rows, table), rows.c[DELETE]))
            stay = rows.c[DELETE].is_not(true())
        taken = select(*loaded.values(names)).where(stay)
        upserting = insert(table).from_select(names, taken)
        changed = {name: upserting.excluded[name] for name in names if name not in journal.key}
        statements.execute(
            upserting.on_conflict_do_update(index_elements=list(journal.key), set_=changed)
            if changed
            else upserting.on_conflict_do_nothing(index_elements=list(journal.key))
        )
        statements.execute(DropTable(rows))

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, forward(self.target, self.checkpoint_id, self.attempt))


@dataclass(frozen=True, slots=True)
class RewindUpserted:
    """See `ports.Participant`. Takes the table to the rows of a branch's checkpoints."""

    journal: Journal | None
    target: Target
    checkpoint_id: int
    branch: Branch
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if self.journal is not None:
            statements.execute(lock_table(self.target))
            self.journal.rewind(statements, self.branch)
        applied = found.applied.without(self.checkpoint_id)
        positions.show(statements, self.target, self.checkpoint_id, applied, self.attempt)

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, rewind(self.target, self.checkpoint_id, self.attempt))


def lock_table(target: Target) -> TextClause:
    """Lock the table: other sessions may read, and write once the transaction has ended. A row that they changed in
    between would not be noted as it was."""
    return statement(f"LOCK TABLE {quoted(target)} IN SHARE ROW EXCLUSIVE MODE")


def require_one_row_a_key(connection: Connection, loaded: Loaded, key: Sequence[str], target: Target) -> Loaded:
    """Keep the last of several rows of a key, and delete the others. Raise `SinkError` for a key with a null."""
    rows = loaded.table
    columns = [rows.c[name] for name in key]
    nulls = connection.execute(select(func.count()).where(or_(*(column.is_(None) for column in columns)))).scalar_one()
    if nulls:
        raise RowsRefusedError(
            f"{nulls} rows for table {target} have no value in {', '.join(key)}, the key. Nothing is visible, and the "
            "rows are staged. Take such rows out in a transform in front of the sink, then run again."
        )
    twice = select(*columns).group_by(*columns).having(func.count() > 1).limit(1)
    if not connection.execute(twice).all():
        return loaded
    later = rows.alias("later")
    same = and_(*(rows.c[name] == later.c[name] for name in key))
    gone = connection.execute(delete(rows).where(same, rows.c[NUMBER] < later.c[NUMBER])).rowcount
    return Loaded(rows, loaded.columns, loaded.rows - gone)
