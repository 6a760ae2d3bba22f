"""The table that is read: its columns, its key, and the column with the transaction of each row."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from tidegate.postgres_sink.names import Target
from tidegate.postgres_sink.tables import quoted

_KIND = text("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(:name)")
_COLUMNS = text("""
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS filled,
    t.typtype::text AS kind
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
""")
_KEY = text("""
SELECT a.attname FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = to_regclass(:name) AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place
""")
#: The table, or each of its partitions that has rows: whether an index begins with the column, and its default.
_LEAVES = text("""
SELECT leaf.oid::regclass::text AS name, pg_get_expr(d.adbin, d.adrelid) AS default,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = leaf.oid AND i.indkey[0] = a.attnum AND i.indpred IS NULL
        AND i.indisvalid) AS indexed
FROM (
    SELECT relid AS oid FROM pg_partition_tree(to_regclass(:name)) WHERE isleaf
    UNION SELECT to_regclass(:name) WHERE NOT :partitioned
) leaf
JOIN pg_attribute a ON a.attrelid = leaf.oid AND a.attname = :column
LEFT JOIN pg_attrdef d ON d.adrelid = leaf.oid AND d.adnum = a.attnum
ORDER BY 1
""")
_ROW_BYTES = text("""
SELECT sum(relpages::float8 * current_setting('block_size')::int) / nullif(sum(greatest(reltuples, 0)), 0)
FROM pg_class WHERE oid = ANY (CAST(:names AS regclass[]))
""")
_SOME_BYTES = 100
_TABLE, _PARTITIONED, _VIEW = "r", "p", "v"
_OTHERS = {"m": "a materialized view, whose rows are written anew by each REFRESH", "f": "a foreign table"}


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column of the table. `filled`: it is never null. `is_composite`: a value has several fields."""

    name: str
    type: str
    filled: bool
    is_composite: bool


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table or partition with rows: the default of the column of transactions, and whether an index begins with
    it."""

    name: str
    default: str | None
    indexed: bool


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table or view. `kind` is that of `pg_class`, `xid` the column with the transaction of each row, `key` the
    columns of the primary key. `leaves` are the tables with its rows, none for a view."""

    target: Target
    kind: str
    xid: str
    columns: tuple[KnownColumn, ...]
    key: tuple[str, ...]
    leaves: tuple[Leaf, ...]

    @property
    def is_view(self) -> bool:
        return self.kind == _VIEW

    def column(self, name: str) -> KnownColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def find_table(connection: Connection, target: Target, xid: str) -> KnownTable | None:
    """Return the table; None if there is none, or this role may not see it."""
    name = {"name": quoted(target)}
    kind = connection.execute(_KIND, name).scalar()
    if kind is None:
        return None
    columns = tuple(
        KnownColumn(row.name, row.type, row.filled, row.kind == "c") for row in connection.execute(_COLUMNS, name)
    )
    key = tuple(connection.execute(_KEY, name).scalars())
    leaves: Sequence[Leaf] = ()
    if kind in (_TABLE, _PARTITIONED):
        found = connection.execute(_LEAVES, {**name, "column": xid, "partitioned": kind == _PARTITIONED})
        leaves = [Leaf(row.name, row.default, row.indexed) for row in found]
    return KnownTable(target, kind, xid, columns, key, tuple(leaves))


def problems(table: KnownTable, key: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """Return a phrase for everything that keeps it from being read. `names`: the wanted columns, None for all."""
    if table.kind in _OTHERS:
        return [f"it is {_OTHERS[table.kind]}: read the table behind it"]
    found = []
    column = table.column(table.xid)
    if column is None:
        found.append(
            f"it has no column {table.xid!r} with the transaction of each row: ALTER TABLE {quoted(table.target)} "
            f"ADD COLUMN {table.xid} xid8 NOT NULL DEFAULT pg_current_xact_id(), or name another one by xid="
        )
    elif column.type != "xid8":
        found.append(
            f"its column {table.xid!r} is {column.type}, and must be xid8: an id of 32 bits begins anew after four "
            "billion transactions"
        )
    elif not table.is_view:
        found += _unfilled(table, column)
    for name in dict.fromkeys((*key, *(names or ()))):
        if table.column(name) is None:
            found.append(f"it has no column {name!r}")
    for name in key:
        known = table.column(name)
        if known is not None and not known.filled and not table.is_view:
            found.append(f"its column {name!r} of key= may be null: ALTER COLUMN {name} SET NOT NULL")
    return found


def _unfilled(table: KnownTable, column: KnownColumn) -> list[str]:
    if not column.filled:
        return [f"its column {column.name!r} may be null: ALTER COLUMN {column.name} SET NOT NULL"]
    wrong = [leaf for leaf in table.leaves if (leaf.default or "") != "pg_current_xact_id()"]
    return [
        f"column {column.name!r} of {leaf.name} has {_shown(leaf.default)}, so rows may lack their transaction: "
        f"ALTER TABLE {leaf.name} ALTER COLUMN {column.name} SET DEFAULT pg_current_xact_id()"
        for leaf in wrong
    ]


def _shown(default: str | None) -> str:
    return "no default" if default is None else f"the default {default}"


def row_bytes(connection: Connection, table: KnownTable) -> int:
    """Estimate the size of a row, from statistics."""
    found = connection.execute(_ROW_BYTES, {"names": [leaf.name for leaf in table.leaves]}).scalar()
    return max(1, int(found or _SOME_BYTES))


def unindexed(table: KnownTable) -> list[str]:
    """Return the tables that are read as a whole by each poll."""
    return [leaf.name for leaf in table.leaves if not leaf.indexed]
