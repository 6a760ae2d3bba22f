"""A key as a user gives it, values or their text, in the types of an operator's key columns."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.state.columns import Hashes, canonical_key, hashes_of_column
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import Column, StateLayout
from tidegate.state.values import NOT_A_VALUE, value_array


@dataclass(frozen=True, slots=True)
class Keys:
    """Distinct keys to look up: `rows` (a `pyarrow.Table` of key columns) in the order of their `hashes`."""

    hashes: Hashes
    rows: pa.Table


def key_of_text(text: str) -> object:
    """Parse a key from a command line or an option: a JSON object or list of the columns' values, else the one value.

    A value that looks like JSON can be given in a list: `["[1]"]`. So can null: `[null]`.
    """
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(text)
    return text


def one_key(layout: StateLayout, key: object) -> Keys:
    """Return the key for `key`: a value if there is one key column, a sequence of them, or a mapping by name.

    Text stands for a value of any type, as Spark writes it. Moments without a zone are in UTC. Raise
    `ConfigurationError` if it does not fit the key columns.
    """
    columns = {column: _converted(layout, column, value) for column, value in _by_column(layout, key)}
    hashes = hashes_of_column(spark_hash([columns[column] for column in layout.hashed], rows=1))
    return Keys(hashes, pa.Table.from_arrays(list(columns.values()), schema=layout.key_schema))


def _by_column(layout: StateLayout, key: object) -> list[tuple[Column, object]]:
    if isinstance(key, Mapping):
        if set(key) != set(layout.key_names):
            raise _wrong(layout, f"{', '.join(map(str, key)) or 'nothing'} was given")
        return [(column, key[column.name]) for column in layout.keys]
    values = list(key) if isinstance(key, Sequence) and not isinstance(key, str | bytes | bytearray) else [key]
    if len(values) != len(layout.keys):
        raise _wrong(layout, f"{len(values)} {'value was' if len(values) == 1 else 'values were'} given")
    return list(zip(layout.keys, values, strict=True))


def _converted(layout: StateLayout, column: Column, value: object) -> pa.Array:
    try:
        return canonical_key(value_array(column.type, value))
    except NOT_A_VALUE as error:
        raise _wrong(layout, f"{value!r} cannot be a {column.sql}") from error


def _wrong(layout: StateLayout, what: str) -> ConfigurationError:
    listed = ", ".join(f"{column.name} {column.sql}" for column in layout.keys)
    example = ", ".join(f'"{column.name}": …' for column in layout.keys)
    return ConfigurationError(
        f"This is not a key of the operator: {what}, and its key is ({listed}). Give the value itself where there is "
        f"one column, or all of them as {{{example}}}."
    )
