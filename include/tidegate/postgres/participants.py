"""Runs what sinks bring to a transaction of the store: their statements, and nothing else of it.

They run before the pipeline's row is locked, so that minutes of an upsert keep nobody waiting for that lock.
"""

import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, text
from sqlalchemy.exc import DBAPIError

from tidegate.ports import Participant, StatementError
from tidegate.postgres.outcomes import is_repeatable, sqlstate
from tidegate.postgres.timeouts import QUERY_CANCELED
from tidegate.protocol.facts.errors import SinkError

#: How long all participants of a transaction may take together. What takes longer holds locks on tables for too long.
BOUND = 300.0  # seconds

_ALLOWED = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "ALTER", "DROP", "TRUNCATE", "LOCK")
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)
#: A name in quotes, which may hold a semicolon.
_NAME = re.compile(r'"(?:[^"]|"")*"')
_TRANSACTION = text("SELECT pg_current_xact_id()::text")
_TIMEOUT = text("SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'")  # milliseconds, 0 for none
_SET_TIMEOUT = text("SELECT set_config('statement_timeout', :value, true)")
#: So that a constraint that waits for the COMMIT is broken here, where it is known whose it is.
CHECK_NOW = text("SET CONSTRAINTS ALL IMMEDIATE")


def run(connection: Connection, participants: Sequence[Participant]) -> None:
    """Run them one after the other. Raises what they raise or make of an error, and `DBAPIError` for what is no fault
    of theirs: a lost connection, or another transaction that came first."""
    if not participants:
        return
    transaction, timeout = connection.scalar(_TRANSACTION), connection.scalar(_TIMEOUT)
    statements = _Statements(connection, monotonic() + BOUND, timeout)
    for participant in participants:
        try:
            participant.run(statements)
        except DBAPIError as error:
            raise statements.explained(error, participant) from error
    try:
        connection.execute(CHECK_NOW)
    except DBAPIError as error:  # the first one explains: only the table's name tells whose the constraint is
        raise statements.explained(error, participants[0]) from error
    connection.execute(_SET_TIMEOUT, {"value": str(timeout)})
    if connection.scalar(_TRANSACTION) != transaction:
        raise SinkError("A sink has ended the transaction that completes the checkpoint. Its code must not do that.")


def too_long() -> SinkError:
    return SinkError(
        f"The sinks in the commit took longer than {BOUND:g} s together, and were ended: they would hold locks on "
        "their tables, and keep the checkpoint, for too long. Nothing is visible, and the staged rows are safe. Commit "
        "fewer rows at once, or put the largest of these sinks after the commit, by a connection of its own."
    )


class _Statements:
    """`ports.CommitStatements`. No statement goes beyond the bound, or beyond `timeout` if an administrator set one."""

    def __init__(self, connection: Connection, ends_at: float, timeout: int) -> None:
        self._connection = connection
        self._ends_at = ends_at
        self._timeout = timeout

    def explained(self, error: DBAPIError, participant: Participant) -> Exception:
        """What to raise for an error of the participant's statements."""
        if is_repeatable(error):
            return error
        if sqlstate(error) == QUERY_CANCELED:
            return too_long() if monotonic() >= self._ends_at else error
        return participant.explain(statement_error(error, self._connection))

    def execute(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> int:
        return self._run(statement, parameters).rowcount

    def query(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return self._run(statement, parameters).all()

    def _run(self, statement: Executable, parameters: Mapping[str, Any] | None) -> CursorResult[Any]:
        _require_own(str(statement))
        left = self._ends_at - monotonic()
        if left <= 0:
            raise too_long()
        allowed = max(1, round(left * 1000))
        self._connection.execute(_SET_TIMEOUT, {"value": str(min(allowed, self._timeout or allowed))})
        return self._connection.execute(statement, dict(parameters or {}))


def _require_own(statement: str) -> None:
    found = _FIRST_WORD.match(statement)
    word = found[1].upper() if found else ""
    if word not in _ALLOWED or ";" in _NAME.sub("", statement).rstrip().rstrip(";"):
        raise SinkError(
            f"A sink asked for {word or statement[:40]!r} in the transaction that completes the checkpoint. One "
            f"statement at a time is allowed, which begins with {', '.join(_ALLOWED)}: the transaction and its "
            "settings are not the sink's. Nothing was changed."
        )


def statement_error(error: DBAPIError, connection: Connection) -> StatementError:
    """What a participant is told of an error."""
    said: Any = getattr(error.orig, "diag", None)

    def of(name: str) -> str:
        return getattr(said, name, None) or ""

    table = ".".join(filter(None, (of("schema_name"), of("table_name"))))
    message = of("message_primary") or str(error.orig).strip().partition("\n")[0]
    role = connection.engine.url.username or ""
    return StatementError(
        sqlstate(error), message, of("message_detail"), table, of("constraint_name"), of("column_name"), role
    )
