"""Where a row belongs, as Spark SQL: its key's hash, and from it the subtask (docs/state.md).

The same arithmetic as `protocol/facts/keygroups.py`, on the unsigned value of Spark's signed hash.
"""

from collections.abc import Sequence

from tidegate.state.layout import HASH, Column


def quoted(name: str) -> str:
    """A column name as it must be written in SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def key_expressions(keys: Sequence[Column]) -> list[str]:
    """`_hash` and the key columns, in the types of the state: the hash depends on the type."""
    typed = [f"cast({quoted(key.name)} as {key.sql})" for key in keys]
    named = [f"{text} as {quoted(key.name)}" for text, key in zip(typed, keys, strict=True)]
    return [f"xxhash64({', '.join(typed)}) as {HASH}", *named]


def subtask_expression(parallelism: int, max_parallelism: int) -> str:
    """The subtask of a row that has its `_hash`, for `repartitionById`."""
    key_group = f"shiftrightunsigned(shiftrightunsigned({HASH}, 32) * {max_parallelism}L, 32)"
    return f"cast({key_group} * {parallelism}L div {max_parallelism}L as int)"
