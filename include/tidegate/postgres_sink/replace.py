"""A table that is replaced by each checkpoint that changes it. A new table is filled first, and then takes its place.

The new table is like the old one, with its defaults, indexes, checks and grants. Objects that it cannot take over, such
as views and foreign keys, are refused before any row is loaded: they would stay with the old table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Connection, func, insert, literal_column, select, text
from sqlalchemy.schema import DropTable

from tidegate.ports import Branch, CommitStatements, StateHandle, StatementError, TableFiles, Withdrawn
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.loading import Loaded
from tidegate.postgres_sink.names import SCHEMA, Target
from tidegate.postgres_sink.refusals import Occasion, lost_rows, refused
from tidegate.postgres_sink.side_tables import readable
from tidegate.postgres_sink.tables import find_table, quoted, quoted_name, statement
from tidegate.protocol.facts.errors import CheckpointError, CheckpointNotRetainedError, SinkError
from tidegate.sinks.staging import confined

if TYPE_CHECKING:
    import pyarrow as pa

#: Objects that depend on the table and are not taken over.
_STAYS = text("""
SELECT DISTINCT 'view ' || r.ev_class::regclass FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass(:name) AND r.ev_class <> d.refobjid
UNION ALL SELECT 'foreign key ' || quote_ident(conname) || ' of ' || conrelid::regclass FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND to_regclass(:name) IN (confrelid, conrelid)
UNION ALL SELECT 'trigger ' || quote_ident(tgname) FROM pg_trigger
WHERE tgrelid = to_regclass(:name) AND NOT tgisinternal
UNION ALL SELECT 'policy ' || quote_ident(polname) FROM pg_policy WHERE polrelid = to_regclass(:name)
UNION ALL SELECT 'publication ' || quote_ident(p.pubname) FROM pg_publication_rel r JOIN pg_publication p
ON p.oid = r.prpubid WHERE r.prrelid = to_regclass(:name)
UNION ALL SELECT 'partition or child ' || inhrelid::regclass FROM pg_inherits
WHERE to_regclass(:name) IN (inhparent, inhrelid)
UNION ALL SELECT 'sequence ' || objid::regclass FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'a'
AND refobjid = to_regclass(:name) AND refobjsubid > 0
AND EXISTS (SELECT FROM pg_class WHERE oid = objid AND relkind = 'S')
UNION ALL SELECT 'no table: it is a view or a foreign table' FROM pg_class
WHERE oid = to_regclass(:name) AND relkind NOT IN ('r', 'p')
""")
#: The identity and the grants of a table, to notice changes. NULL if there is none.
_STATE = text("""
SELECT concat_ws(' ', oid, relacl, (SELECT string_agg(attacl::text, ' ' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = c.oid)) FROM pg_class c WHERE oid = to_regclass(:name)
""")
_GRANTS = text("""
SELECT privilege_type AS right, '' AS columns, grantee, is_grantable FROM pg_class c, aclexplode(c.relacl)
WHERE c.oid = to_regclass(:name) AND grantee <> c.relowner
UNION ALL SELECT privilege_type, quote_ident(attname), grantee, is_grantable
FROM pg_attribute a, aclexplode(a.attacl) WHERE a.attrelid = to_regclass(:name) AND NOT attisdropped
""")
#: Properties that LIKE leaves out: storage parameters, such as a fill factor, and the tablespace.
_STORED = text("""
SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ') ', '')
    || coalesce('TABLESPACE ' || quote_ident(spcname), '')
FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE c.oid = to_regclass(:name)
""")
_ROLE = text("SELECT quote_ident(rolname) FROM pg_roles WHERE oid = :oid")
_OWNS = text("""
SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(:name)
""")
_COMMENT = text("SELECT quote_literal(obj_description(to_regclass(:name), 'pg_class'))")


@dataclass(frozen=True, slots=True)
class Filled:
    """A new table with all rows, and the state of the old one when the new one was made like it."""

    table: Target
    state: str


@dataclass(frozen=True, slots=True)
class Replace:
    """See `ports.Participant`. The new table takes the old one's place. Without `filled`, the table has these rows
    already. Readers wait until the transaction has ended, and the transaction waits for those that have read the table.
    `back`: replace the table even if it shows a later checkpoint."""

    target: Target
    checkpoint_id: int
    content: str | None
    filled: Filled | None
    occasion: Occasion
    back: bool = False
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if found.applied.newest >= self.checkpoint_id and not self.back:
            return
        if self.filled is not None:
            self._swap(statements, self.filled)
        elif self.content is not None and (found.content != self.content or not found.is_of_table):
            raise self._changed()
        applied = found.applied.with_commit(self.checkpoint_id)
        positions.show(statements, self.target, self.checkpoint_id, applied, self.attempt, self.content, has_all=True)

    def _swap(self, statements: CommitStatements, filled: Filled) -> None:
        old, new = quoted(self.target), quoted(filled.table)
        statements.execute(statement(f"LOCK TABLE {old} IN ACCESS EXCLUSIVE MODE"))
        if statements.query(_STATE, {"name": old}) != [(filled.state,)]:
            raise self._changed()
        statements.execute(statement(f"DROP TABLE {old}"))
        statements.execute(statement(f"ALTER TABLE {new} SET SCHEMA {quoted_name(self.target.schema)}"))
        moved = quoted(Target(self.target.schema, filled.table.name))
        statements.execute(statement(f"ALTER TABLE {moved} RENAME TO {quoted_name(self.target.name)}"))

    def _changed(self) -> SinkError:
        return SinkError(
            f"{self.occasion.what}: the table or its grants were changed while its successor was filled. "
            f"{self.occasion.safe} Then {self.occasion.again}."
        )

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, self.occasion)


def content_of(staged: Sequence[StateHandle]) -> str | None:
    """Return a digest that identifies the rows of staged files; None for no files, as of a checkpoint before the
    sink."""
    if not staged:
        return None
    return sha256("\n".join(sorted(f"{each.path} {each.checksum}" for each in staged)).encode()).hexdigest()


def problems(connection: Connection, target: Target) -> list[str]:
    """Return a phrase for everything that keeps the table from being replaced."""
    old = quoted(target)
    old_name = {"name": old}
    found = [
        f"{each} would be lost, or stay with the old table: take it off, or use mode='upsert', which keeps the table"
        for each in sorted(connection.execute(_STAYS, old_name).scalars())
    ]
    if connection.execute(_OWNS, old_name).scalar() is False:
        found.append(f"only its owner may replace it, and that is another role: ALTER TABLE {old} OWNER TO this one")
    return found


def has(connection: Connection, target: Target, content: str | None) -> bool:
    """Whether the present table has these rows, or there is no table and no rows are expected."""
    if find_table(connection, target) is None:
        return content is None
    shown = positions.shown(connection, target)
    return content is not None and shown.content == content and shown.is_of_table


def fill(connection: Connection, target: Target, checkpoint_id: int, loaded: Loaded | None) -> Filled:
    """Make a table like the target with these rows, and drop the table of loaded rows. Raise `SinkError`."""
    old, table = quoted(target), Target(SCHEMA, target.loaded(checkpoint_id, f"{uuid4().hex[:12]}_new"))
    new = quoted(table)
    stored = connection.execute(_STORED, {"name": old}).scalar_one()
    connection.execute(statement(f"CREATE TABLE {new} (LIKE {old} INCLUDING ALL) {stored}"))
    if loaded is not None:
        names = [column.name for column in loaded.columns]
        taken = insert(readable(table, names)).from_select(names, select(*loaded.values(names)))
        found = connection.execute(taken).rowcount
        if found != loaded.rows:
            raise lost_rows(target, checkpoint_id, found, loaded.rows)
        connection.execute(DropTable(loaded.table))
    old_name = {"name": old}
    for grant in connection.execute(_GRANTS, old_name).all():
        whom = "PUBLIC" if grant.grantee == 0 else connection.execute(_ROLE, {"oid": grant.grantee}).scalar_one()
        columns = f" ({grant.columns})" if grant.columns else ""
        further = " WITH GRANT OPTION" if grant.is_grantable else ""
        connection.execute(statement(f"GRANT {grant.right}{columns} ON {new} TO {whom}{further}"))
    if comment := connection.execute(_COMMENT, old_name).scalar():
        connection.execute(statement(f"COMMENT ON TABLE {new} IS {comment}"))
    connection.execute(statement(f"ANALYZE {new}"))
    return Filled(table, connection.execute(_STATE, old_name).scalar_one())


def shown_outside(connection: Connection, target: Target, branch: Branch) -> list[Withdrawn]:
    """Return all rows, if the table shows another branch's checkpoint."""
    shows = positions.shown(connection, target).checkpoint_id
    if shows is None or shows in branch or find_table(connection, target) is None:
        return []
    table = readable(target, []).alias("t")
    size = func.coalesce(func.sum(func.pg_column_size(literal_column("t.*"))), 0)
    rows, bytes_ = connection.execute(select(func.count(), size).select_from(table)).one()
    return [Withdrawn(shows, 0, int(bytes_), rows)]


def files_at(
    root: str,
    target: Target,
    checkpoint_id: int,
    staged: Sequence[StateHandle] | None,
    rows: "pa.Schema | None",
    columns: Sequence[str] | None,
) -> TableFiles:
    """See `ports.ReadableAtSink`: the files that the checkpoint staged, as long as they are kept."""
    import pyarrow as pa

    if staged is None:
        raise CheckpointNotRetainedError(
            f"Table {target} cannot be read as of checkpoint {checkpoint_id}: the rows of that checkpoint are not kept "
            "any more. Nothing was changed. Read a checkpoint that is retained."
        )
    shown = [field for field in rows or () if columns is None or field.name in columns]
    return TableFiles(tuple(f"{root}/{confined(each.path)}" for each in staged), pa.schema(shown))
