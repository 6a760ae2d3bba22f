"""The header of a CSV file: its names, how an error shows them, and how records with other columns are brought into the
schema's order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidegate.sources.allowed import Aliases, Allowed
from tidegate.sources.quotes import Rules, fields, raw_fields

if TYPE_CHECKING:
    import pyarrow as pa

RENAMED = (
    "A column may have another name there: declare it with aliases. Or accept both, with "
    'missing_columns="null" and extra_columns="ignore" in place of evolve. '
)
NULLS = 'Or read missing columns as null, with missing_columns="null". '


def expected_names(found: Sequence[str], expected: Sequence[str], aliases: Aliases) -> str:
    """Return the names in a header for an error. A name that the schema does not have is not shown: the file may be
    another one, whose first line must not be disclosed."""
    known = {*(name.lower() for name in expected), *aliases}
    return ", ".join(name if name.lower() in known else "?" for name in found)


def header_fields(record: bytes, rules: Rules, strip: bool) -> list[str]:
    """Return the names in a header."""
    found = [name.decode() for name in fields(record, rules)]
    return [name.strip() for name in found] if strip else found


class Layout(NamedTuple):
    """The columns of the schema in a file: their `positions` in the order of the schema, None for missing ones. Its
    records have `width` fields."""

    positions: tuple[int | None, ...]
    width: int


class Mismatch(NamedTuple):
    """A mismatch of a header, without names that the schema does not have, and the option that accepts it."""

    what: str
    way_out: str


def layout_of(
    found: Sequence[str], expected: Sequence[str], allowed: Allowed, aliases: Aliases
) -> Layout | Mismatch | None:
    """Return the columns of a header; None if they are those of the schema in their order. Upper and lower case are
    alike."""
    there = [aliases.get(name.lower(), name).lower() for name in found]
    wanted = [name.lower() for name in expected]
    if there == wanted:
        return None
    twice = [name for name, low in zip(expected, wanted, strict=True) if there.count(low) > 1]
    missing = [name for name, low in zip(expected, wanted, strict=True) if low not in there]
    extra = sum(low not in wanted for low in there)
    if twice:
        return Mismatch(f"it has {twice_in(found, there, twice)}", "")
    if missing and extra and allowed.adds_only:
        return Mismatch(f"it lacks {', '.join(missing)} and has {extra} more than the schema", RENAMED)
    if missing and not allowed.missing:
        return Mismatch(f"it lacks {', '.join(missing)}", NULLS)
    if extra and not allowed.extra:
        return Mismatch(f"it has {extra} more than the schema", 'Or ignore those with extra_columns="ignore". ')
    return Layout(tuple(there.index(low) if low in there else None for low in wanted), len(found))


def twice_in(found: Sequence[str], there: Sequence[str], twice: Sequence[str]) -> str:
    """Describe columns that occur more than once, for an error. `there` has the columns, in lower case, of the names in
    `found`."""
    phrases = []
    for column in twice:
        names = [name for name, key in zip(found, there, strict=True) if key == column.lower()]
        is_renamed = any(name.lower() != column.lower() for name in names)
        phrases.append(f"{' and '.join(names)}, which are both {column}" if is_renamed else f"{column} more than once")
    return "; ".join(phrases)


def arranged(records: "pa.StringArray", layout: Layout, rules: Rules) -> "pa.StringArray":
    """Return CSV records in the columns of the schema; null for a record with another number of fields than the
    header."""
    import pyarrow as pa
    import pyarrow.compute as pc

    separator = rules.separator.decode()
    if rules.quote and pc.any(pc.match_substring(records, rules.quote.decode())).as_py():
        return pa.array([_arranged(record, layout, rules) for record in records.to_pylist()], pa.string())
    parts = pc.split_pattern(records, separator)
    whole = pc.equal(pc.list_value_length(parts), layout.width)
    parts = pc.if_else(whole, parts, pa.scalar([""] * layout.width, parts.type))
    columns = [
        pa.repeat(pa.scalar("", pa.string()), len(records)) if at is None else pc.list_element(parts, at)
        for at in layout.positions
    ]
    return pc.if_else(whole, pc.binary_join_element_wise(*columns, separator), None)


def _arranged(record: str | None, layout: Layout, rules: Rules) -> str | None:
    if record is None:
        return None
    parts = list(raw_fields(record.encode(), rules))
    if len(parts) != layout.width:
        return None
    return rules.separator.join(b"" if at is None else parts[at] for at in layout.positions).decode()
