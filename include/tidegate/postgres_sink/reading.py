"""The rows of a table at a checkpoint, even after a restore or later commits. One statement reads them at one moment.

An appended table has the rows of the checkpoint's branch, visible or withdrawn. In an upserted table, the changes of
other checkpoints are taken back, key by key, with the previous rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    Text,
    cast,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    union_all,
)

from tidegate.ports import Branch
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.copying import libpq
from tidegate.postgres_sink.journal import THERE, Journal
from tidegate.postgres_sink.loading import require_driver
from tidegate.postgres_sink.names import CHECKPOINT, SCHEMA, Target
from tidegate.postgres_sink.side_tables import is_in, readable
from tidegate.postgres_sink.tables import DIALECT, find_table
from tidegate.protocol.facts.errors import (
    CheckpointInDoubtError,
    CheckpointNotRetainedError,
    SinkError,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = "_place"
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True)
class RowsAt:
    """The rows of a table at a checkpoint as `ports.ArrowRows`, read when they are needed. `types` are those of the
    table's columns, by name."""

    url: URL
    target: Target
    checkpoint_id: int
    rows: Select[Any]
    types: dict[str, str]

    @property
    def schema(self) -> "pa.Schema":
        import pyarrow as pa

        return pa.schema([pa.field(name, _arrow_type(kind)) for name, kind in self.types.items()])

    def to_table(self, columns: list[str]) -> "pa.Table":
        """See `ports.ArrowRows`. Raise `SinkError`, `NotInstalledError`, and the errors of `require_kept`."""
        schema = self.schema
        rows = self.rows.subquery("rows")
        wanted = select(*(_plain(rows.c[name], self.types[name]) for name in columns))
        found = _read(self.url, self.target, self.checkpoint_id, wanted)
        import pyarrow as pa

        return pa.table([found[name].cast(schema.field(name).type) for name in columns], names=columns)


def appended(connection: Connection, target: Target, columns: Sequence[str], branch: Branch) -> Select[Any]:
    """Return the query for the rows of the branch, and those of other writers, which no restore moves."""
    names = [name for name in columns if name != CHECKPOINT]
    table = readable(target, columns)
    others = or_(table.c[CHECKPOINT].is_(None), table.c[CHECKPOINT] <= 0)
    parts = [select(*(table.c[name] for name in names)).where(or_(is_in(branch), others))]
    if (away := _side_table(connection, target.withdrawn, names)) is not None:
        parts.append(away.where(is_in(branch)))
    return _together(parts, names)


def upserted(connection: Connection, journal: Journal, branch: Branch) -> Select[Any]:
    """Return the query for the rows of the branch. A key has its row from `after` if the branch has that checkpoint, or
    the oldest row from `before` of other checkpoints, or else its row in the table."""
    names, table = journal.columns, journal.table
    made = _newest(connection, journal, journal.target.after, is_in(branch), newest=True)
    before = _newest(connection, journal, journal.target.before, not_(is_in(branch)), newest=False)
    parts, over = list[Select[Any]](), list[FromClause]()
    for noted in (made, before):
        if noted is not None:
            parts.append(
                select(*(noted.c[name] for name in names)).where(noted.c[THERE], *_none_of(journal, noted, over))
            )
            over.append(noted)
    parts.append(select(*(table.c[name] for name in names)).where(*_none_of(journal, table, over)))
    return _together(parts, names)


def _none_of(journal: Journal, rows: FromClause, others: Sequence[FromClause]) -> list[ColumnElement[bool]]:
    found = [select(literal(1)).select_from(other).where(journal.same_key(other, rows)) for other in others]
    return [not_(exists(each.correlate(rows))) for each in found]


def _newest(
    connection: Connection, journal: Journal, name: str, which: ColumnElement[bool], newest: bool
) -> FromClause | None:
    """Return one noted row for each key: that of the newest checkpoint, or of the oldest."""
    rows = _side_table(connection, name, [THERE, *journal.columns])
    if rows is None:
        return None
    noted = rows.get_final_froms()[0].c[CHECKPOINT]
    id_ = noted.desc() if newest else noted
    key = [column for column in rows.selected_columns if column.key in journal.key]
    place = func.row_number().over(partition_by=key, order_by=id_).label(_PLACE)
    ranked = rows.add_columns(place).where(which).subquery("ranked")
    return select(*ranked.c).where(ranked.c[_PLACE] == 1).cte(f"of_{name}")


def _side_table(connection: Connection, name: str, columns: Sequence[str]) -> Select[Any] | None:
    """Return these columns of a side table. A column that the sink's table has got since is null there."""
    target = Target(SCHEMA, name)
    known = find_table(connection, target)
    if known is None:
        return None
    there = [each for each in columns if known.column(each) is not None]
    table: Table = readable(target, [CHECKPOINT, *there])
    return select(*(table.c[each] if each in there else null().label(each) for each in columns)).select_from(table)


def _together(parts: Sequence[Select[Any]], names: Sequence[str]) -> Select[Any]:
    rows = union_all(*parts).subquery("parts")
    return select(*(rows.c[name] for name in names))


def no_table(target: Target, checkpoint_id: int) -> CheckpointInDoubtError:
    return CheckpointInDoubtError(
        f"Table {target} cannot be read as of checkpoint {checkpoint_id}: there is no such table yet, or this role may "
        "not use its schema. Nothing was changed."
    )


def require_kept(found: positions.Kept | None, target: Target, checkpoint_id: int) -> None:
    """Raise `CheckpointInDoubtError`, `CheckpointNotRetainedError`."""
    where = f"Table {target} cannot be read as of checkpoint {checkpoint_id}"
    if found is None or found.checkpoint_id < checkpoint_id:
        raise CheckpointInDoubtError(f"{where} yet: the table does not show it. Nothing was changed. Read it again.")
    if found.forgotten > checkpoint_id and found.shows != checkpoint_id:
        raise CheckpointNotRetainedError(
            f"{where} any more: rows that later checkpoints have replaced are kept for restores only, since "
            f"checkpoint {found.forgotten}. Nothing was changed. Read the latest checkpoint. "
            "CheckpointConfig(retained=…) sets how many are kept."
        )


def _read(url: URL, target: Target, checkpoint_id: int, rows: Select[Any]) -> "pa.Table":
    require_driver()
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(libpq(url)) as opened, opened.cursor() as cursor:
            cursor.execute(_ONE_MOMENT)
            cursor.execute(_compiled(positions.kept_rows(target)))
            known = cursor.fetchone()
            require_kept(None if known is None else positions.Kept(*known), target, checkpoint_id)
            cursor.execute(_compiled(rows))
            return cursor.fetch_arrow_table()
    except Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
        raise SinkError(
            f"Table {target} cannot be read as of checkpoint {checkpoint_id}: {lines[0]}. Nothing was changed. Check "
            f"that its database can be reached, and that this role may read the table and the schema {SCHEMA}."
        ) from error


def _compiled(statement: Select[Any]) -> str:
    """Return the statement with its values, which are numbers of checkpoints and the table's name."""
    return str(statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True}))


def _plain(column: ColumnElement[Any], kind: str) -> ColumnElement[Any]:
    """Read a column of a type that Arrow does not have as text."""
    read = column if _known(kind) is not None else cast(column, Text)
    return read.label(column.key)


def _arrow_type(kind: str) -> "pa.DataType":
    import pyarrow as pa

    return _known(kind) or pa.string()


def _known(kind: str) -> "pa.DataType | None":
    import pyarrow as pa

    base = kind.partition("(")[0].strip() + kind.partition(")")[2]
    if base == "numeric" and "(" in kind:
        precision, _, scale = kind.partition("(")[2].rstrip(")").partition(",")
        return pa.decimal128(int(precision), int(scale or 0)) if 0 <= int(scale or 0) <= int(precision) <= 38 else None
    return {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "text": pa.string(),
        "character varying": pa.string(),
        "date": pa.date32(),
        "time without time zone": pa.time64("us"),
        "timestamp without time zone": pa.timestamp("us"),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
        "bytea": pa.binary(),
    }.get(base)
