"""Find the database timeout that ended a statement, and where it was set.

Tidegate does not set these timeouts. An administrator did, for a role, a database or the server. They are left
unchanged, and the error names the timeout and its origin.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from sqlalchemy.engine import ExceptionContext

QUERY_CANCELED = "57014"
#: The settings, by the text of PostgreSQL's error.
_TIMEOUTS = {"statement timeout": "statement_timeout", "transaction timeout": "transaction_timeout"}
_SETTING = text("""
    SELECT current_setting(name) AS value, source, current_user AS role, current_database() AS database
    FROM pg_settings WHERE name = :name
""")
#: By `pg_settings.source`: where it was set, and how to change it.
_ORIGINS = {
    "user": ("for the role {role}", "ALTER ROLE {role} SET {name} = …"),
    "database": ("for the database {database}", "ALTER DATABASE {database} SET {name} = …"),
    "database user": (
        "for the role {role} in the database {database}",
        "ALTER ROLE {role} IN DATABASE {database} SET {name} = …",
    ),
    "client": ("in the URL's options, or by a pooler", "other options in the URL"),
    "configuration file": ("in the server's configuration", "ALTER ROLE {role} SET {name} = …"),
}
_ELSEWHERE = ("as pg_settings has it: {source}", "ALTER ROLE {role} SET {name} = …")


def name_timeouts(engine: Engine) -> None:
    """Add to errors of the engine the timeout that was reached. It is read on another connection, because the failed
    one is still in its transaction."""

    @event.listens_for(engine, "handle_error")
    def handle(context: "ExceptionContext") -> None:
        name = _reached(context.original_exception)
        if name is None:
            return
        with suppress(SQLAlchemyError), engine.connect() as connection:
            setting = connection.execute(_SETTING, {"name": name}).mappings().one()
            where, change = _ORIGINS.get(setting["source"], _ELSEWHERE)
            note = f"{{name}} is {{value}}, set {where}; it is raised by: {change}"
            context.original_exception.add_note(note.format(name=name, **setting))


def _reached(error: BaseException | None) -> str | None:
    if getattr(error, "pgcode", None) not in (QUERY_CANCELED, "25P04"):
        return None
    return next((name for message, name in _TIMEOUTS.items() if message in str(error)), None)


def timeout_reached(error: BaseException | None) -> str | None:
    """Return a sentence about the timeout that caused the error; None if none did."""
    name = _reached(error)
    if name is None:
        return None
    notes: list[str] = getattr(error, "__notes__", [])
    return notes[-1] if notes else f"{name} is set for this role, its database or the server; see pg_settings"
