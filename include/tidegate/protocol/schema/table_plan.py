"""The effect of changed columns on a table of appended rows: whether it can still be read as a whole, and with which
option of its reader.

Committed rows are never written again, so a table has both files with the old columns and files with the new ones.
`tests/spark/test_changed_tables.py` verifies with Spark and pyarrow how readers treat them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.schema.state_schema import StateColumn, StateSchema, can_widen


class TableVerdict(StrEnum):
    AS_BEFORE = "as before"
    WITH_OPTION = "with an option"
    NOT_AS_A_WHOLE = "not as a whole"


class TableKind(StrEnum):
    FILES = "files"  # each with the columns of its rows
    EVOLVES = "evolves"  # the table's own columns follow those of the rows
    FIXED = "fixed"  # the user defines the table's columns
    UNKNOWN = "unknown"  # the sink does not declare it


class ColumnChange(StrEnum):
    """The kinds of changes, from harmless to harmful."""

    DROPPED = "dropped"  # null in new rows
    NEW = "new"  # missing in earlier files
    RENAMED = "renamed"  # two columns, each null in the rows of the other
    WIDENED = "widened"  # files differ in its type, and one type has all values
    OTHER_TYPE = "of another type"  # no type has all values


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect on a table. `advice` is the advice for its readers."""

    verdict: TableVerdict
    advice: str


Changes = Mapping[str, ColumnChange]


def changed_state(stored: StateSchema, now: StateSchema) -> Changes:
    """Find the differences in the visible columns of an operator's rows. Performs no I/O."""
    found: dict[str, ColumnChange] = {}
    owners = {name: each.name for each in now.aggregates for name in each.accumulators}
    before = {column.id: column for column in _columns(stored)}
    for column in _columns(now):
        name, old = owners.get(column.name, column.name), before.pop(column.id, None)
        change = _change(old, column, is_shown=name == column.name)
        if change is not None:
            found[name] = change
    former = {name: each.name for each in stored.aggregates for name in each.accumulators}
    kept = {column.id: owners[column.name] for column in _columns(now) if column.name in owners}
    for column in _columns(stored):
        if column.id in kept and former.get(column.name) != kept[column.id]:
            found.setdefault(kept[column.id], ColumnChange.RENAMED)
    aggregates = {each.name for each in now.aggregates}
    for column in before.values():
        name = former.get(column.name, column.name)
        if name not in aggregates:
            found.setdefault(name, ColumnChange.DROPPED)
    return found


def _columns(schema: StateSchema) -> tuple[StateColumn, ...]:
    return (*schema.keys, *(schema.declared or ()))


def _change(old: StateColumn | None, new: StateColumn, is_shown: bool) -> ColumnChange | None:
    """Classify the change of a column. A hidden accumulator may be widened: the aggregate's own type stays."""
    if old is None:
        return ColumnChange.NEW
    if is_shown and old.type is not None and new.type is not None and old.type != new.type:
        return ColumnChange.WIDENED
    return ColumnChange.RENAMED if old.name != new.name and not new.name.startswith("_") else None


def changed_rows(before: object, now: object) -> Changes:
    """Find the differences of a source's schemas, which are DDL. Performs no I/O."""
    if not isinstance(before, str) or not isinstance(now, str) or before == now:
        return {}
    old, new = ({name: type_.lower() for name, type_ in columns_of(ddl)} for ddl in (before, now))
    found: dict[str, ColumnChange] = dict.fromkeys(old.keys() - new.keys(), ColumnChange.DROPPED)
    for name, type_ in new.items():
        if name not in old:
            found[name] = ColumnChange.NEW
        elif plain_type(old[name]) != plain_type(type_):
            widens = can_widen(plain_type(old[name]), plain_type(type_))
            found[name] = ColumnChange.WIDENED if widens else ColumnChange.OTHER_TYPE
    return found


_SAME = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}


def plain_type(type_: str) -> str:
    """Return a type of DDL in lower case, under the name that is used in comparisons. Performs no I/O."""
    plain = type_.removesuffix(" not null").replace(", ", ",").strip()
    return _SAME.get(plain, plain)


def plan_table(changes: Sequence[Changes], is_exact: bool, kind: TableKind = TableKind.FILES) -> TableChange:
    """Plan the effect on a table. `changes` are those of all operators and sources that its rows come from. Unless
    `is_exact`, code in between decides which of the columns reach the table. Performs no I/O."""
    columns = {name: change for each in changes for name, change in each.items()}
    if not columns:
        return TableChange(TableVerdict.AS_BEFORE, "")
    kinds = list(ColumnChange)
    worst = max(columns.values(), key=kinds.index)
    names = ", ".join(repr(name) for name in sorted(columns) if columns[name] is worst)
    maybe = "" if is_exact else ", if it reaches the table"
    if kind is TableKind.EVOLVES:
        return _evolved(worst, names, maybe)
    if kind is TableKind.FIXED:
        return _fixed(worst, names, maybe)
    if kind is TableKind.UNKNOWN:
        return _unknown(worst, names, maybe)
    match worst:
        case ColumnChange.DROPPED:
            advice = f"earlier rows keep {names}, which is null in new ones{maybe}; the table is read as before"
            return TableChange(TableVerdict.AS_BEFORE, advice)
        case ColumnChange.OTHER_TYPE:
            advice = (
                f"{names} has another type, and earlier rows keep theirs{maybe}: no reader reads both as one table. "
                "Give the sink another directory (`tidegate relocate` confirms that), or the column another name"
            )
            return TableChange(TableVerdict.NOT_AS_A_WHOLE, advice)
        case ColumnChange.WIDENED:
            advice = (
                f"earlier rows keep the narrower type of {names}{maybe}: read the table with the new columns named, "
                "in Spark spark.read.schema(…).parquet(…), in pyarrow read_table(…, schema=…). Without that, and with "
                "mergeSchema, Spark fails or reads wrong values, and pyarrow fails or cuts values off"
            )
        case _:
            advice = (
                f"earlier files do not have {names}{maybe}: read the table in Spark with the option mergeSchema, in "
                "pyarrow with read_table(…, schema=…). Without that a reader may leave out the column"
            )
    return TableChange(TableVerdict.WITH_OPTION, advice)


def _evolved(worst: ColumnChange, names: str, maybe: str) -> TableChange:
    """Plan the effect on a table that identifies columns by number."""
    match worst:
        case ColumnChange.OTHER_TYPE:
            advice = (
                f"{names} has another type{maybe}, and the next checkpoint is refused: cast it in a transform, or give "
                "the column another name"
            )
            return TableChange(TableVerdict.NOT_AS_A_WHOLE, advice)
        case ColumnChange.WIDENED:
            advice = f"the table's {names} gets the wider type{maybe}, if its format allows that, else it is refused"
        case ColumnChange.RENAMED:
            advice = (
                f"the table gets {names}{maybe}, and keeps the column of the old name. With renamed={{old: new}} its "
                "sink renames that instead"
            )
        case ColumnChange.NEW:
            advice = f"the table gets {names}{maybe}, which is null in earlier rows"
        case _:
            advice = f"the table keeps {names}, which is null in new rows{maybe}"
    return TableChange(TableVerdict.AS_BEFORE, f"{advice}; the table is read as before")


def _fixed(worst: ColumnChange, names: str, maybe: str) -> TableChange:
    """Plan the effect on a table whose columns the user defines. Rows that do not fit are refused before anything is
    visible."""
    match worst:
        case ColumnChange.OTHER_TYPE | ColumnChange.WIDENED:
            advice = (
                f"the table's {names} keeps its type{maybe}: rows that do not fit it are refused. Alter the column "
                "before the next run, or cast the rows in a transform"
            )
        case ColumnChange.RENAMED | ColumnChange.NEW:
            advice = (
                f"a table without the column {names} refuses the next checkpoint{maybe}: add the column before the "
                "next run, or leave it out by columns="
            )
        case _:
            advice = (
                f"the table keeps {names}, which has its default in new rows{maybe}. If it takes no null and has no "
                "default, they are refused"
            )
    return TableChange(TableVerdict.AS_BEFORE, f"{advice}; the table is read as before")


def _unknown(worst: ColumnChange, names: str, maybe: str) -> TableChange:
    """Plan the effect on a table of the user's own sink."""
    match worst:
        case ColumnChange.OTHER_TYPE | ColumnChange.WIDENED:
            advice = f"{names} has another type in new rows"
        case ColumnChange.RENAMED | ColumnChange.NEW:
            advice = f"new rows have a column {names}"
        case _:
            advice = f"new rows have no column {names}"
    advice = f"{advice}{maybe}. The sink does not declare the effect on its table: see its own description"
    return TableChange(TableVerdict.AS_BEFORE, advice)
