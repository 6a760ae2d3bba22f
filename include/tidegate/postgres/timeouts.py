"""Finds out which of the database's own timeouts ended a statement, and who has set it.

Nothing of ours sets them: an administrator did, for a role, a database or the server. They are left as they are, and
the error says which and from where.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from sqlalchemy.engine import ExceptionContext

QUERY_CANCELED = "57014"
#: By what PostgreSQL says of each.
_TIMEOUTS = {"statement timeout": "statement_timeout", "transaction timeout": "transaction_timeout"}
_SETTING = text("""
    SELECT current_setting(name) AS value, source, current_user AS role, current_database() AS database
    FROM pg_settings WHERE name = :name
""")
#: By `pg_settings.source`: where it was set, and what changes it.
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
    """Have errors of the engine say which timeout was reached. It is looked up on another connection: that of the
    error is still in its failed transaction."""

    @event.listens_for(engine, "handle_error")
    def handle(context: "ExceptionContext") -> None:
        name = _reached(context.original_exception)
        if name is None:
            return
        with suppress(SQLAlchemyError), engine.connect() as connection:
            found = connection.execute(_SETTING, {"name": name}).mappings().one()
            where, change = _ORIGINS.get(found["source"], _ELSEWHERE)
            said = f"{{name}} is {{value}}, set {where}; it is raised by: {change}"
            context.original_exception.add_note(said.format(name=name, **found))


def _reached(error: BaseException | None) -> str | None:
    if getattr(error, "pgcode", None) not in (QUERY_CANCELED, "25P04"):
        return None
    return next((name for said, name in _TIMEOUTS.items() if said in str(error)), None)


def timeout_reached(error: BaseException | None) -> str | None:
    """What is known of the timeout that the error is about; None if it is about none."""
    name = _reached(error)
    if name is None:
        return None
    notes: list[str] = getattr(error, "__notes__", [])
    return notes[-1] if notes else f"{name} is set for this role, its database or the server; see pg_settings"
