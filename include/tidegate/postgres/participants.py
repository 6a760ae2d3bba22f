"""Run the statements of sinks in a transaction of the store, and allow them nothing else.

They run before the pipeline's row is locked, so that no process waits for that lock during minutes of an upsert.
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

#: The time of all participants of a transaction together. Longer ones would hold locks on tables for too long.
BOUND = 300.0  # seconds

_ALLOWED = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "ALTER", "DROP", "TRUNCATE", "LOCK")
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)
#: A name in quotes, which may contain a semicolon.
_NAME = re.compile(r'"(?:[^"]|"")*"')
_TRANSACTION = text("SELECT pg_current_xact_id()::text")
_TIMEOUT = text("SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'")  # milliseconds, 0 for none
_SET_TIMEOUT = text("SELECT set_config('statement_timeout', :value, true)")
#: Check deferred constraints here and not at the COMMIT, so that a violation can be attributed to its sink.
CHECK_NOW = text("SET CONSTRAINTS ALL IMMEDIATE")


def run(connection: Connection, participants: Sequence[Participant]) -> None:
    """Run participants one after the other. Raises their errors, or the explanations that they give, and `DBAPIError`
    for an error that they did not cause: a lost connection, or another transaction that came first."""
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
    except DBAPIError as error:  # the first one explains: only the table's name shows whose constraint it is
        raise statements.explained(error, participants[0]) from error
    connection.execute(_SET_TIMEOUT, {"value": str(timeout)})
    if connection.scalar(_TRANSACTION) != transaction:
        raise SinkError("A sink has ended the transaction that completes the checkpoint. Its code must not do that.")


def too_long() -> SinkError:
    return SinkError(
        f"The sinks in the commit took longer than {BOUND:g} s together, and were ended: they would hold locks on "
        "their tables, and keep the checkpoint, for too long. Nothing is visible, and the staged rows are safe. Commit "
        "fewer rows at once, or put the largest of these sinks after the commit, with a separate connection."
    )


class _Statements:
    """The statements of a sink, a `ports.CommitStatements`. None exceeds the bound, or `timeout` if an administrator
    set one."""

    def __init__(self, connection: Connection, ends_at: float, timeout: int) -> None:
        self._connection = connection
        self._ends_at = ends_at
        self._timeout = timeout

    def explained(self, error: DBAPIError, participant: Participant) -> Exception:
        """Return the error to raise for an error of the participant's statements."""
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
        remaining = self._ends_at - monotonic()
        if remaining <= 0:
            raise too_long()
        allowed = max(1, round(remaining * 1000))
        self._connection.execute(_SET_TIMEOUT, {"value": str(min(allowed, self._timeout or allowed))})
        return self._connection.execute(statement, dict(parameters or {}))


def _require_own(statement: str) -> None:
    match = _FIRST_WORD.match(statement)
    word = match[1].upper() if match else ""
    if word not in _ALLOWED or ";" in _NAME.sub("", statement).rstrip().rstrip(";"):
        raise SinkError(
            f"A sink executed {word or statement[:40]!r} in the transaction that completes the checkpoint. One "
            f"statement at a time is allowed, which begins with {', '.join(_ALLOWED)}: the transaction and its "
            "settings are not the sink's. Nothing was changed."
        )


def statement_error(error: DBAPIError, connection: Connection) -> StatementError:
    """Return the facts of an error for its participant."""
    diagnostics: Any = getattr(error.orig, "diag", None)

    def of(name: str) -> str:
        return getattr(diagnostics, name, None) or ""

    table = ".".join(filter(None, (of("schema_name"), of("table_name"))))
    message = of("message_primary") or str(error.orig).strip().partition("\n")[0]
    role = connection.engine.url.username or ""
    return StatementError(
        sqlstate(error), message, of("message_detail"), table, of("constraint_name"), of("column_name"), role
    )
