"""Whether stored state fits what an operator's definition says now, and what becomes of its columns.

State is never rewritten for a change: runs keep the columns they were written with, and readers bring their rows to the
newest schema. A column is known by an id, which stays when it is renamed. One that is dropped and comes back later gets
another id, so that what old runs hold of it is not taken for its values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidegate.protocol.schema.expiry import UPDATED, TimeToLive

#: The columns in which the bounds of a window are: the last ones of the key of state that has windows.
BOUNDS = ("window_start", "window_end")
#: What the state of a declared join has besides: the versions of its right side, and how often results were updated.
JOINED = ("right_versions", "result_updates")


@dataclass(frozen=True, slots=True)
class StateColumn:
    """`type` is named as in Spark SQL; None if only Spark can tell. `default` is what rows have that were written
    before the column was there (JSON)."""

    name: str
    type: str | None
    id: str
    default: Any = None

    def __str__(self) -> str:
        return f"{self.name} {self.type}" if self.type else self.name


class StateAggregate(NamedTuple):
    """A declared aggregate, and the columns that hold what it needs. Its state does not depend on the options that are
    `changeable`."""

    name: str
    function: str
    column: str | None
    ordering: str | None
    accumulators: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    changeable: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [name for name in (self.column, self.ordering) if name]
        return f"{self.function}({', '.join([*said, *(f'{name}={value}' for name, value in self.options)]) or '*'})"

    def over(self, former: Mapping[str, str | None]) -> tuple[object, ...]:
        """What its state depends on, with its input columns called as they were."""
        column, ordering = (name and (former.get(name) or name) for name in (self.column, self.ordering))
        fixed = sorted((name, value) for name, value in self.options if name not in self.changeable)
        return self.function, column, ordering, *fixed


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The columns of an operator's state. `values` are None if only Spark can tell them. `version` counts the changes
    since the state was begun. With a `ttl` by processing time the last value is when a row was last changed. Rows of
    `sessions` are placed by their key without bounds."""

    keys: tuple[StateColumn, ...]
    values: tuple[StateColumn, ...] | None
    aggregates: tuple[StateAggregate, ...] = ()
    version: int = 0
    ttl: TimeToLive | None = None
    sessions: bool = False

    @property
    def updated(self) -> StateColumn | None:
        """The column that says when a row was last changed."""
        if self.ttl is None or not self.ttl.processing_time:
            return None
        return next((column for column in self.values or () if column.name == UPDATED), None)

    @property
    def declared(self) -> tuple[StateColumn, ...] | None:
        """The values without that column."""
        return None if self.values is None else tuple(column for column in self.values if column is not self.updated)

    def lives_by(self) -> tuple[str, int, bool] | None:
        """What the rows' lives depend on: the id of the column, how long, and whether by processing time."""
        if self.ttl is None:
            return None
        ids = {column.name: column.id for column in (*self.keys, *(self.values or ()))}
        return ids.get(self.ttl.column, self.ttl.column), self.ttl.after, self.ttl.processing_time


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """`schema`: the definition's, with the ids and defaults that stored columns have. `changes` say what is different,
    `problems` what cannot be, a phrase each."""

    schema: StateSchema
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def compare_schemas(stored: StateSchema, defined: StateSchema, former: Mapping[str, str | None]) -> SchemaChange:
    """What becomes of `stored` state under a definition. `former` names are by the column's or aggregate's name now;
    None says that it is new, whatever it looks like. Performs no I/O."""
    comparison = _Comparison(stored, defined, former)
    keys = comparison.keys()
    values = comparison.values()
    comparison.say_ttl(replace(defined, keys=keys, values=values))
    changes, problems = tuple(comparison.changes), tuple(comparison.problems)
    if not changes:
        return SchemaChange(replace(defined, keys=keys, values=values, version=stored.version), problems=problems)
    version = stored.version + 1
    return SchemaChange(replace(defined, keys=keys, values=values, version=version), changes, problems)


class _Comparison:
    def __init__(self, stored: StateSchema, defined: StateSchema, former: Mapping[str, str | None]) -> None:
        self.changes: list[str] = []
        self.problems: list[str] = []
        self._stored = stored
        self._defined = defined
        self._former = former

    def keys(self) -> tuple[StateColumn, ...]:
        before, now = self._stored.keys, self._defined.keys
        names = [column.name for column in before]
        matched = [self._former_name(column.name, names) for column in now]
        if set(names) ^ {column.name for column in now} == set(BOUNDS):
            kept, are = ("by key alone", "now has") if BOUNDS[0] not in names else ("by key and window", "has no more")
            self.problems.append(f"its rows are kept {kept}, and it {are} windows")
            return now
        if self._stored.sessions != self._defined.sessions and matched == names:
            kept, are = ("sessions", "windows") if self._stored.sessions else ("windows", "sessions")
            self.problems.append(f"its rows are those of {kept}, and it now has {are}, whose rows are placed otherwise")
            return now
        if matched != names:
            self.problems.append(
                f"the key is stored as ({_listed(before)}) and now defined as ({_listed(now)}); rows are found by it"
            )
            return now
        return tuple(self._matched(old, new, is_key=True) for old, new in zip(before, now, strict=True))

    def values(self) -> tuple[StateColumn, ...] | None:
        before, now = self._stored.declared, self._defined.declared
        if before is None or now is None:
            return before
        names = ({column.name for column in columns} & set(JOINED) for columns in (before, now))
        if len(set(map(frozenset, names))) > 1:
            self.problems.append(
                "it was another kind of join: what is kept of both sides depends on as_of, on row_key, and on whether "
                "the right side has versions"
            )
            return now
        if self._stored.aggregates and self._defined.aggregates:
            pairs = self._paired_aggregates()
        else:
            pairs = self._paired([column.name for column in before], [column.name for column in now])
            self._require_no_rename(
                [column for column in before if column.name not in pairs.values()],
                [column for column in now if column.name not in pairs],
            )
            self._say_added_and_dropped(pairs)
        old = {column.name: column for column in before}
        matched = (
            self._matched(old[pairs[column.name]], column) if column.name in pairs else self._new(column)
            for column in now
        )
        return (*matched, *self._updated())

    def _updated(self) -> tuple[StateColumn, ...]:
        """When rows were last changed is known only where it has been kept ever since."""
        old, new = self._stored.updated, self._defined.updated
        if new is None:
            return ()
        return (self._new(new) if old is None else old,)

    def say_ttl(self, now: StateSchema) -> None:
        """What becomes of rows that are there, whose lives depended on something else."""
        before, after = self._stored.ttl, self._defined.ttl
        if self._stored.lives_by() == now.lives_by():
            return
        gone = "; what has expired until then stays so" if before else ""
        if after is None:
            self.changes.append(f"rows do not expire any more, and did {before}: those that are left stay{gone}")
        elif before is None and after.processing_time:
            self.changes.append(f"rows expire {after}: of those that are there, the time begins to run now")
        elif before is None:
            self.changes.append(f"rows expire {after}")
        else:
            begins = ", which of those that are there begins now" if now.updated and not self._stored.updated else ""
            self.changes.append(f"rows expire {after}{begins}, and did {before}{gone}")

    def _former_name(self, name: str, stored: Sequence[str]) -> str | None:
        """What a column is called in the state; None if it is not there."""
        if name in stored:
            return name
        former = self._former.get(name)
        return former if former in stored else None

    def _paired(self, before: Sequence[str], now: Sequence[str]) -> dict[str, str]:
        """By name now, the name in the state. A name that is still in use is nobody's former name."""
        pairs = {name: name for name in now if name in before}
        for name in now:
            former = self._former_name(name, before)
            if former is not None and former not in pairs.values():
                pairs.setdefault(name, former)
        return pairs

    def _matched(self, old: StateColumn, new: StateColumn, is_key: bool = False) -> StateColumn:
        what = "key column" if is_key else "column"
        shown = f"{what} {new.name!r}"
        if old.name != new.name and not _is_accumulator(new.name):
            self.changes.append(f"{shown} was called {old.name!r}")
        type_ = new.type or old.type
        if old.type is not None and type_ != old.type:
            assert type_ is not None
            if not can_widen(old.type, type_):
                self.problems.append(
                    f"{shown} is stored as {old.type}, now {type_}, which cannot hold every value of it"
                )
            elif is_key and not keeps_hash(old.type, type_):
                self.problems.append(
                    f"{shown} is stored as {old.type}, now {type_}, and a key of another type has another hash, so "
                    "that its row would not be found"
                )
            else:
                self.changes.append(f"{shown} is widened from {old.type} to {type_}")
        return StateColumn(new.name, type_, old.id, old.default)

    def _new(self, column: StateColumn) -> StateColumn:
        return replace(column, id=f"{column.name}#{self._stored.version + 1}")

    def _require_no_rename(self, gone: Sequence[StateColumn], added: Sequence[StateColumn]) -> None:
        """A column that was renamed without saying so would lose its values."""
        for new in added:
            if new.name in self._former:
                continue
            same = [old.name for old in gone if old.type == new.type]
            if same:
                self.problems.append(_maybe_renamed("column", same[0], new.name))

    def _say_added_and_dropped(self, pairs: Mapping[str, str]) -> None:
        for column in self._defined.declared or ():
            if column.name not in pairs:
                value = "null" if column.default is None else repr(column.default)
                self.changes.append(f"column {column.name!r} is new: {value} in rows that are there already")
        for column in self._stored.declared or ():
            if column.name not in pairs.values():
                self.changes.append(f"column {column.name!r} is dropped, with its values")

    def _paired_aggregates(self) -> dict[str, str]:
        before = {aggregate.name: aggregate for aggregate in self._stored.aggregates}
        now = {aggregate.name: aggregate for aggregate in self._defined.aggregates}
        names = self._paired(list(before), list(now))
        columns: dict[str, str] = {}
        for name, former in names.items():
            columns |= self._same_aggregate(before[former], now[name])
        for name, aggregate in now.items():
            if name not in names:
                since = "counts" if aggregate.function == "count" else "knows rows"
                self.changes.append(f"aggregate {name!r}, {aggregate}, is new: it {since} from now on")
        for name, aggregate in before.items():
            if name not in names.values():
                self.changes.append(f"aggregate {name!r}, {aggregate}, is dropped, with its values")
        self._require_no_renamed_aggregate(
            [aggregate for name, aggregate in before.items() if name not in names.values()],
            [aggregate for name, aggregate in now.items() if name not in names and name not in self._former],
        )
        return columns

    def _same_aggregate(self, old: StateAggregate, new: StateAggregate) -> dict[str, str]:
        if old.over({}) not in (new.over({}), new.over(self._former)):
            self.problems.append(f"aggregate {new.name!r} is stored as {old}, now {new}")
            return {}
        if old.name != new.name and _is_accumulator(new.accumulators[0]):
            self.changes.append(f"aggregate {new.name!r} was called {old.name!r}")
        if old.over({}) != new.over({}):
            self.changes.append(f"aggregate {new.name!r} is {new}, which was called {old}")
        elif old.options != new.options:
            self.changes.append(f"aggregate {new.name!r} is {new}, and was {old}: its state stays as it is")
        return dict(zip(new.accumulators, old.accumulators, strict=True))

    def _require_no_renamed_aggregate(self, gone: Sequence[StateAggregate], added: Sequence[StateAggregate]) -> None:
        for new in added:
            same = [old.name for old in gone if old.over({}) == new.over({})]
            if same:
                self.problems.append(_maybe_renamed("aggregate", same[0], new.name))


def _maybe_renamed(what: str, old: str, new: str) -> str:
    return (
        f"{what} {old!r} is gone and {new!r} is like it: if it was renamed, say so with "
        f"previous=Previous(columns={{{new!r}: {old!r}}}), and if it is another one, with None in place of the old name"
    )


def _is_accumulator(name: str) -> bool:
    return name.startswith("_")


def _listed(columns: Sequence[StateColumn]) -> str:
    return ", ".join(map(str, columns))


# -- types

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # and the most digits they have, as in Spark
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def can_widen(old: str, new: str) -> bool:
    """Whether every value of one type is a value of the other, as Parquet and Iceberg widen types, and Spark reads
    them. Types are named as in Spark SQL. Performs no I/O."""
    if old == new or old == "void":
        return True
    if old.startswith("array<") and new.startswith("array<"):
        return can_widen(old[6:-1], new[6:-1])
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS[old] < _INTEGERS[new]
    if old in _INTEGERS and (wide := _decimal(new)):
        return wide[0] - wide[1] >= _INTEGERS[old]
    if (narrow := _decimal(old)) and (wide := _decimal(new)):
        return wide[1] >= narrow[1] and wide[0] - wide[1] >= narrow[0] - narrow[1]
    return (old, new) in {
        ("float", "double"),
        ("tinyint", "double"),
        ("smallint", "double"),
        ("int", "double"),
        ("date", "timestamp_ntz"),
    }


def keeps_hash(old: str, new: str) -> bool:
    """Whether a key that is widened has the hash it had: numbers up to 32 bits are hashed alike, and decimals of one
    scale by their digits, up to 18 of them in another way than more. Performs no I/O."""
    if old == new or old == "void":
        return True
    if (narrow := _decimal(old)) and (wide := _decimal(new)):
        return narrow[1] == wide[1] and (narrow[0] <= 18) == (wide[0] <= 18)
    small = {"tinyint", "smallint", "int"}
    return old in small and new in small


def _decimal(type_: str) -> tuple[int, int] | None:
    """Precision and scale."""
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else None
