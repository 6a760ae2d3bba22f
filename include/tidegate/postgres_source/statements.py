"""The statements that find the rows of a part: by the ids of transactions and the key, so that one index finds them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Executable,
    Select,
    Table,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

from tidegate.postgres_sink.side_tables import readable
from tidegate.postgres_sink.tables import quoted_name
from tidegate.postgres_source.columns import selected
from tidegate.postgres_source.positions import Part, Place
from tidegate.postgres_source.snapshots import Ended, ended_between
from tidegate.postgres_source.tables import KnownTable

#: The column that tells whether a row was changed by a transaction that came after those of the part.
CHANGED = "_changed"
_WRAPS = 1 << 32
Rows = Select[Any] | CompoundSelect[Any]


class Named(UserDefinedType[str]):
    """A type of Postgres by its name, whose values are given as text."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name

    def literal_processor(self, dialect: Any) -> Any:
        """Return a literal with letters and digits only, whatever the server does with other characters."""
        return lambda value: f"U&'{''.join(map(_escaped, value))}' UESCAPE '!'"


_XID, _XIDS = Named("xid8"), Named("xid8[]")


class PartStatements:
    """The statements of one part of a table."""

    def __init__(self, table: KnownTable, part: Part, key: Sequence[str]) -> None:
        self._known, self._part = table, part
        self.key = part.key or tuple(key)
        self._types = {column.name: column.type for column in table.columns}

    def count(self) -> Select[Any]:
        """Return the statement that counts its rows."""
        return select(func.count()).select_from(self._places().subquery())

    def place(self, number: int) -> Executable:
        """Return the statement for the place of a row, counted from 1: first the transaction, then the key."""
        places: Executable = self._ordered().offset(number - 1).limit(1)
        return places

    def cuts(self, size: int) -> Executable:
        """Return the statement for the places that cut it into ranges of about `size` rows, with the number of rows up
        to each."""
        places = self._places().subquery("places")
        number = func.row_number().over(order_by=[places.c.xid, *(places.c[name] for name in self._labels)])
        numbered = select(*places.c, number.label("number")).subquery("numbered")
        first, last = func.min(numbered.c.number), func.max(numbered.c.number)
        place = [numbered.c.xid, *(numbered.c[name] for name in self._labels)]
        shown = [cast(column, Text) for column in place]
        cuts: Any = select(*shown, last)
        crosses = func.div(last, size) > func.div(first - 1, size)
        statement: Executable = cuts.group_by(*place).having(crosses).order_by(*place)
        return statement

    def rows(self, names: Sequence[str], changes: bool) -> Rows:
        """Return the statement for all rows in some columns, with `changes` also for the column `CHANGED`."""
        table = self._table()
        columns = selected(self._known, table, names)
        return self._of_each(table, [*columns, self._is_changed(table).label(CHANGED)] if changes else columns)

    @property
    def _labels(self) -> list[str]:
        return [f"k{number}" for number in range(len(self.key))]

    def _table(self) -> Table:
        return readable(self._known.target, list(self._types))

    def _places(self) -> Rows:
        table = self._table()
        columns = [table.c[self._known.xid].label("xid")]
        columns += [table.c[name].label(label) for name, label in zip(self.key, self._labels, strict=True)]
        return self._of_each(table, columns)

    def _ordered(self) -> Any:
        places = self._places().subquery("places")
        places_as_text: Any = select(*(cast(column, Text) for column in places.c))
        return places_as_text.order_by(*places.c)

    def _of_each(self, table: Table, columns: Sequence[ColumnElement[Any]]) -> Rows:
        """Return a union for the transactions that were running and for those after them, so that an index serves
        both."""
        bounds = self._bounds(table)
        parts = [select(*columns).select_from(table).where(which, *bounds) for which in self._ended(table)]
        return parts[0] if len(parts) == 1 else union_all(*parts)

    def _ended(self, table: Table) -> list[ColumnElement[bool]]:
        ended, id_ = ended_between(self._part.seen, self._part.until), table.c[self._known.xid]
        found: list[ColumnElement[bool]] = []
        if ended.late:
            found.append(id_ == func.any(_ids(ended.late)))
        if ended.low < ended.high:
            found.append(_between(id_, ended))
        return found or [false()]

    def _bounds(self, table: Table) -> list[ColumnElement[bool]]:
        place = tuple_(table.c[self._known.xid], *(table.c[name] for name in self.key))
        found: list[ColumnElement[bool]] = []
        if self._part.after is not None:
            found.append(place > self._value(self._part.after))
        if self._part.last is not None:
            found.append(place <= self._value(self._part.last))
        return found

    def _value(self, place: Place) -> Any:
        id_, key = place
        return tuple_(_id(id_), *(cast(literal(value, Named("text")), Named(self._types[name])) for name, value in key))

    def _is_changed(self, table: Table) -> ColumnElement[bool]:
        """Whether a row's version was written by a transaction that the part does not see. That id has 32 bits, so it
        is taken for one since the part, and must not be before the row's own, unless the row is older than the column.
        Its age is compared first, which takes a fraction of the time."""
        until = self._part.until
        xmin: ColumnElement[Any] = literal_column("xmin")
        own = cast(cast(table.c[self._known.xid], Text), BigInteger)
        since = func.mod(func.mod(cast(cast(xmin, Text), BigInteger) - own, _WRAPS) + _WRAPS, _WRAPS)
        later = and_(func.age(xmin) <= _age(until.xmax), own + since >= until.xmax)
        changed = or_(later, *(own + since == each for each in sorted(until.running)))
        return case((func.age(xmin).between(0, _age(until.xmin)), changed), else_=false())


def before_all(table: KnownTable, xmax: int) -> Select[Any]:
    """Return the statement for the largest id in the table of a transaction that has not begun, as of a snapshot."""
    id_ = readable(table.target, [table.xid]).c[table.xid]
    return select(cast(id_, Text)).where(id_ >= _id(xmax)).order_by(id_.desc()).limit(1)


def without_place(table: KnownTable, key: Sequence[str]) -> Select[Any]:
    """Return the statement for a row without an id or a value of the key."""
    of = readable(table.target, [table.xid, *key])
    return select(literal(1)).select_from(of).where(or_(*(column.is_(None) for column in of.c))).limit(1)


def compiled(statement: Rows) -> str:
    """Return the statement with its values, because the driver for Arrow takes no parameters."""
    return str(statement.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}))


def make_index(table: KnownTable, key: Sequence[str]) -> str:
    """Return the statement that makes the index by which rows are found."""
    listed = ", ".join(map(quoted_name, (table.xid, *key)))
    return f"CREATE INDEX ON {quoted_name(table.target.schema)}.{quoted_name(table.target.name)} ({listed})"


def _escaped(character: str) -> str:
    return character if character.isascii() and character.isalnum() else f"!+{ord(character):06X}"


def _age(transaction: int) -> ColumnElement[Any]:
    return func.age(cast(literal(str(transaction % _WRAPS), Named("text")), Named("xid")))


def _id(transaction: int) -> ColumnElement[Any]:
    return cast(literal(str(transaction), Named("text")), _XID)


def _ids(transactions: Sequence[int]) -> ColumnElement[Any]:
    return cast(literal(f"{{{','.join(map(str, transactions))}}}", Named("text")), _XIDS)


def _between(id_: ColumnElement[Any], ended: Ended) -> ColumnElement[bool]:
    inside = and_(id_ >= _id(ended.low), id_ < _id(ended.high))
    return and_(inside, id_ != func.all(_ids(ended.running))) if ended.running else inside


#: A dialect that does not double percent signs.
_DIALECT = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
