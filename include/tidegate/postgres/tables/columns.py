"""The parts that all tables share: their schema, and checks generated from closed lists of the protocol."""

from enum import StrEnum

from sqlalchemy import DDL, TIMESTAMP, MetaData, Table, event

from tidegate.protocol.facts.records import CheckpointKind

SCHEMA = "tidegate"
CHANNEL = "tidegate"  # of NOTIFY; the payload is the pipeline's id

metadata = MetaData(schema=SCHEMA)

INSTANT = TIMESTAMP(timezone=True)
ONLY_OF_SAVEPOINTS = f"kind <> '{CheckpointKind.CHECKPOINT}' OR num_nonnulls(name, note) = 0"
ONLY_TO_STOP = f"NOT drain OR kind = '{CheckpointKind.SYNC_SAVEPOINT}'"


def listed(values: list[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def members(kind: type[StrEnum]) -> str:
    return listed([member.value for member in kind])


def confined(column: str) -> str:
    """Return a check that a path stays below its root."""
    return f"{column} <> '' AND '/' || {column} || '/' NOT LIKE ALL (ARRAY['//%', '%/../%'])"


def after_create(of: Table | MetaData, *statements: str) -> None:
    """Execute statements after the table is created, for functions and triggers. `DDL` formats its text with `%`."""
    for statement in statements:
        event.listen(of, "after_create", DDL(statement.replace("%", "%%")))  # type: ignore[no-untyped-call]
