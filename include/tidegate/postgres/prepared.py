"""Statements that Postgres plans once for each connection instead of each time it is asked.

psycopg2 sends every statement as text, and Postgres plans each of them anew. For what each step of a checkpoint asks,
that takes longer than to answer. The others stay as they are: the best plan of a statement that joins files or many
subtasks depends on how many there are, and a plan that is kept may be of a time when there were few.

A name is Postgres' own, so `pg_stat_activity` shows `EXECUTE look (…)`. Names belong to a session: behind a pooler,
that has to be a session of the server.
"""

import re
from functools import cache
from typing import Any

from sqlalchemy import Engine, Table, TextClause, event, text

_OPTION = "tidegate_prepared"
_PARAMETER = re.compile(r"%\((\w+)\)s|%%")


def prepared(**statements: str) -> TextClause:
    """Statements by the names that Postgres knows them by; several travel in one request. Each names the columns that
    it answers: if a migration adds one, a `*` would be refused by the sessions that have it prepared."""
    return text(";".join(statements.values())).execution_options(**{_OPTION: tuple(statements)})


def columns(table: Table, alias: str) -> str:
    """All columns of a table that this version of the library knows."""
    return ", ".join(f"{alias}.{column.name}" for column in table.columns)


def prepare_statements(engine: Engine) -> None:
    """Whoever listens to what the engine sends sees the statements themselves."""

    @event.listens_for(engine, "do_execute")
    def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        if (names := context.execution_options.get(_OPTION)) is None:
            return False
        known: set[str] = context.root_connection.info.setdefault(_OPTION, set())
        asked = _split(names, statement)
        for name, (preparing, _) in zip(names, asked, strict=True):
            if name not in known:
                cursor.execute(preparing)
                known.add(name)
        cursor.execute("; ".join(executing for _, executing in asked), parameters)
        return True


@cache
def _split(names: tuple[str, ...], statement: str) -> tuple[tuple[str, str], ...]:
    """For each name what prepares its statement, and what executes it with the driver's parameters."""
    return tuple(_prepared(name, each) for name, each in zip(names, statement.split(";"), strict=True))


def _prepared(name: str, statement: str) -> tuple[str, str]:
    places: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"${places.setdefault(found[1], len(places) + 1)}" if found[1] else "%"

    preparing = f"PREPARE {name} AS {_PARAMETER.sub(place, statement)}"
    given = ", ".join(f"%({parameter})s" for parameter in places)
    return preparing, f"EXECUTE {name} ({given})" if given else f"EXECUTE {name}"
