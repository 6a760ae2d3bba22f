"""The comparison of stored state with an operator's present definition, and the resulting schema.

State is never rewritten for a change. Runs keep the columns they were written with, and readers bring their rows to the
newest schema. A column is identified by an id, which stays when it is renamed. A column that is dropped and added again
later gets another id, so that old runs have no values for it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidegate.protocol.schema.expiry import UPDATED, TimeToLive

#: The columns with the bounds of a window: the last ones of the key of state that has windows.
BOUNDS = ("window_start", "window_end")
#: Further columns of a declared join's state: the versions of its right side, and the number of updates of results.
JOINED = ("right_versions", "result_updates")


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column. `type` is named as in Spark SQL; None if only Spark can determine it. `default` is the value (JSON) in
    rows that are older than the column."""

    name: str
    type: str | None
    id: str
    default: Any = None

    def __str__(self) -> str:
        return f"{self.name} {self.type}" if self.type else self.name


class StateAggregate(NamedTuple):
    """A declared aggregate, and the columns of its accumulators. Its state does not depend on `changeable` options."""

    name: str
    function: str
    column: str | None
    ordering: str | None
    accumulators: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    changeable: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = [name for name in (self.column, self.ordering) if name]
        return f"{self.function}({', '.join([*columns, *(f'{name}={value}' for name, value in self.options)]) or '*'})"

    def over(self, former: Mapping[str, str | None]) -> tuple[object, ...]:
        """Return everything that its state depends on, with its input columns under their former names."""
        column, ordering = (name and (former.get(name) or name) for name in (self.column, self.ordering))
        fixed = sorted((name, value) for name, value in self.options if name not in self.changeable)
        return self.function, column, ordering, *fixed


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The columns of an operator's state. `values` are None if only Spark can determine them. `version` counts the
    changes since the state began. With a `ttl` by processing time, the last value is the time of a row's last change.
    Rows of `sessions` are placed by their key without bounds."""

    keys: tuple[StateColumn, ...]
    values: tuple[StateColumn, ...] | None
    aggregates: tuple[StateAggregate, ...] = ()
    version: int = 0
    ttl: TimeToLive | None = None
    sessions: bool = False

    @property
    def updated(self) -> StateColumn | None:
        """The column with the time of a row's last change."""
        if self.ttl is None or not self.ttl.processing_time:
            return None
        return next((column for column in self.values or () if column.name == UPDATED), None)

    @property
    def declared(self) -> tuple[StateColumn, ...] | None:
        """The values without the column `updated`."""
        return None if self.values is None else tuple(column for column in self.values if column is not self.updated)

    def lives_by(self) -> tuple[str, int, bool] | None:
        """Return the TTL: the id of its column, its length, and whether it is by processing time."""
        if self.ttl is None:
            return None
        ids = {column.name: column.id for column in (*self.keys, *(self.values or ()))}
        return ids.get(self.ttl.column, self.ttl.column), self.ttl.after, self.ttl.processing_time


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A compared schema: that of the definition, with the ids and defaults of stored columns. `changes` are the
    differences, and `problems` the impossible ones, a phrase for each."""

    schema: StateSchema
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def compare_schemas(stored: StateSchema, defined: StateSchema, former: Mapping[str, str | None]) -> SchemaChange:
    """Compare `stored` state with a definition. `former` has the former names of columns and aggregates, by their names
    now; None means that one is new, even if it resembles an old one. Performs no I/O."""
    comparison = _Comparison(stored, defined, former)
    keys = comparison.keys()
    values = comparison.values()
    comparison.compare_ttl(replace(defined, keys=keys, values=values))
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
                "it was another kind of join: the state of both sides depends on as_of, on row_key, and on whether "
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
            self._report_added_and_dropped(pairs)
        old = {column.name: column for column in before}
        matched = (
            self._matched(old[pairs[column.name]], column) if column.name in pairs else self._new(column)
            for column in now
        )
        return (*matched, *self._updated())

    def _updated(self) -> tuple[StateColumn, ...]:
        """Return the column of the last change. It has an id of its own unless the stored state has it already."""
        old, new = self._stored.updated, self._defined.updated
        if new is None:
            return ()
        return (self._new(new) if old is None else old,)

    def compare_ttl(self, now: StateSchema) -> None:
        """Report the effect of a changed TTL on existing rows."""
        before, after = self._stored.ttl, self._defined.ttl
        if self._stored.lives_by() == now.lives_by():
            return
        gone = "; rows that have expired until then stay expired" if before else ""
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
        """Return the name of a column in the state; None if the state does not have it."""
        if name in stored:
            return name
        former = self._former.get(name)
        return former if former in stored else None

    def _paired(self, before: Sequence[str], now: Sequence[str]) -> dict[str, str]:
        """Pair the names now with those in the state. A name that is still in use is no former name."""
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
        """Refuse columns that may have been renamed without a former name: they would lose their values."""
        for new in added:
            if new.name in self._former:
                continue
            same = [old.name for old in gone if old.type == new.type]
            if same:
                self.problems.append(_maybe_renamed("column", same[0], new.name))

    def _report_added_and_dropped(self, pairs: Mapping[str, str]) -> None:
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
    """Whether every value of one type is a value of the other, by the rules by which Parquet and Iceberg widen types
    and Spark reads them. Types are named as in Spark SQL. Performs no I/O."""
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
    """Whether a widened key keeps its hash. Numbers up to 32 bits are hashed alike. Decimals of one scale are hashed by
    their digits, in one way up to 18 digits and in another beyond. Performs no I/O."""
    if old == new or old == "void":
        return True
    if (narrow := _decimal(old)) and (wide := _decimal(new)):
        return narrow[1] == wide[1] and (narrow[0] <= 18) == (wide[0] <= 18)
    small = {"tinyint", "smallint", "int"}
    return old in small and new in small


def _decimal(type_: str) -> tuple[int, int] | None:
    """Parse the precision and the scale."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None
