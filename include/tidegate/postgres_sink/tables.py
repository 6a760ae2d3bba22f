"""The table that readers see: its columns and constraints, and its creation."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    TextClause,
    text,
)
from sqlalchemy.dialects import postgresql

from tidegate.postgres_sink.columns import RowColumn
from tidegate.postgres_sink.names import CHECKPOINT, Target

_COLUMNS = text("""
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
    a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS required,
    a.attgenerated <> '' OR a.attidentity = 'a' AS generated
FROM pg_attribute a WHERE a.attrelid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
""")
_UNIQUE = text("""
SELECT array_agg(a.attname::text) AS names
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])
WHERE i.indrelid = to_regclass(:name) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
""")
#: Casts that an INSERT applies by itself.
_CASTS = text("""
SELECT castsource::regtype::text AS source, casttarget::regtype::text AS target FROM pg_cast
WHERE castcontext IN ('i', 'a')
""")
_TEXTS = ("text", "character varying", "character")
#: SQLAlchemy does not annotate the constructor.
DIALECT: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. `required`: it takes no null and has no default. `generated`: only the database fills it."""

    name: str
    type: str
    required: bool
    generated: bool


@dataclass(frozen=True, slots=True)
class Existing:
    """A table that exists. `unique` has the columns of each of its unique constraints and indexes."""

    columns: tuple[TableColumn, ...]
    unique: frozenset[frozenset[str]]

    def column(self, name: str) -> TableColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def quoted(target: Target) -> str:
    """Return the table's name quoted for Postgres."""
    return f"{quoted_name(target.schema)}.{quoted_name(target.name)}"


def quoted_name(name: str) -> str:
    return DIALECT.identifier_preparer.quote_identifier(name)


def statement(sql: str) -> TextClause:
    """Return a statement without parameters, in which a colon is part of a name."""
    return text(sql.replace(":", "\\:"))


def find_table(connection: Connection, target: Target) -> Existing | None:
    """Read the table; None if there is none, or this role may not see it."""
    name = {"name": quoted(target)}
    rows = connection.execute(_COLUMNS, name).all()
    if not rows:
        return None
    unique = connection.execute(_UNIQUE, name).scalars()
    columns = tuple(TableColumn(row.name, row.type, row.required, row.generated) for row in rows)
    return Existing(columns, frozenset(frozenset(names) for names in unique))


def problems(connection: Connection, existing: Existing, rows: Sequence[RowColumn], checkpoint: bool) -> list[str]:
    """Return a phrase for everything that keeps the rows out of the table. `checkpoint`: it needs a column for it."""
    casts = {(row.source, row.target) for row in connection.execute(_CASTS)}
    found = []
    for row in rows:
        column = existing.column(row.name)
        if column is None:
            found.append(f"it has no column {row.name!r}: add it, or leave it out by columns=")
        elif column.generated:
            found.append(f"its column {row.name!r} is generated: leave it out by columns=")
        elif not _fits(row, column.type, casts):
            found.append(
                f"its column {row.name!r} is {column.type}, and the rows have {_type_of(row)}: change one of the two"
            )
    names = {row.name for row in rows} | {CHECKPOINT}
    found += [
        f"its column {column.name!r} takes no null, has no default, and the rows do not have it"
        for column in existing.columns
        if column.required and not column.generated and column.name not in names
    ]
    if checkpoint and existing.column(CHECKPOINT) is None:
        found.append(
            f"it has no column {CHECKPOINT}, by which rows are taken back when the pipeline is restored: ALTER TABLE … "
            f"ADD COLUMN {CHECKPOINT} bigint"
        )
    return found


def _fits(row: RowColumn, kind: str, casts: set[tuple[str, str]]) -> bool:
    base = kind.partition("(")[0].strip() + kind.partition(")")[2]
    if row.is_json:
        return base in ("json", "jsonb", *_TEXTS)
    loaded = _type_of(row).partition("(")[0].strip()
    return base == loaded or base in _TEXTS or (loaded, base) in casts


def _type_of(row: RowColumn) -> str:
    """Return the type of a row's column, as Postgres names it."""
    name = row.made.compile(DIALECT).lower()
    return {"timestamp": "timestamp without time zone", "float": "double precision"}.get(name, name)


def make(
    connection: Connection, target: Target, rows: Sequence[RowColumn], key: Sequence[str], checkpoint: bool
) -> None:
    """Make the table, unless it exists by now."""
    columns = [Column(row.name, row.made, nullable=row.name not in key) for row in rows]
    if checkpoint:
        columns.append(Column(CHECKPOINT, BigInteger, nullable=False))
    keys = [PrimaryKeyConstraint(*key)] if key else []
    table = Table(target.name, MetaData(), *columns, *keys, schema=target.schema)
    if checkpoint:  # few pages: rows of a checkpoint are adjacent, and a restore takes the newest back
        Index(None, table.c[CHECKPOINT], postgresql_using="brin")
    table.create(connection, checkfirst=True)
