"""The subtask of a row as Spark SQL: its key's hash, and from it the subtask (docs/reference/state-format.md).

It is the arithmetic of `protocol/facts/keygroups.py`, on the unsigned value of Spark's signed hash.
"""

from tidegate.state.hashing import SEED
from tidegate.state.layout import HASH, StateLayout


def quoted(name: str) -> str:
    """Quote a column name for SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def key_expressions(layout: StateLayout) -> list[str]:
    """Return `_hash` and the key columns, in the types of the state, because the hash depends on the type."""
    typed = {key: f"cast({quoted(key.name)} as {key.sql})" for key in layout.keys}
    named = [f"{text} as {quoted(key.name)}" for key, text in typed.items()]
    hashed = ", ".join(typed[key] for key in layout.hashed)
    return [f"xxhash64({hashed}) as {HASH}" if hashed else f"{SEED}L as {HASH}", *named]


def subtask_expression(parallelism: int, max_parallelism: int) -> str:
    """Return the subtask of a row that has its `_hash`, for `repartitionById`."""
    key_group = f"shiftrightunsigned(shiftrightunsigned({HASH}, 32) * {max_parallelism}L, 32)"
    return f"cast({key_group} * {parallelism}L div {max_parallelism}L as int)"
