"""Explain a database error to the user: refused, nothing happened, or outcome unknown.

The only question that matters is whether the COMMIT had been sent (protocol.md section 6). Before it, nothing was
changed. During it, the transaction may have landed.
"""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.postgres.timeouts import QUERY_CANCELED, timeout_reached
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    RecordRefusedError,
    StoreUnavailableError,
    UnknownOutcomeError,
)

_LOCK_NOT_AVAILABLE = "55P03"
_INSUFFICIENT_PRIVILEGE = "42501"
_TOO_MANY_CONNECTIONS = "53300"
# Texts of PostgreSQL when it refuses a connection, for which libpq passes on no SQLSTATE.
_FULL = (
    "too many clients already",
    "remaining connection slots are reserved",
    "too many connections for",
    "no more connections allowed",
)
_IN_BETWEEN = ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")
_READ_ONLY = "25006"
_IDLE_TOO_LONG = "25P03"
#: A serialisation failure and a deadlock. Nothing is wrong: another transaction came first.
_CONFLICTS = {"40001", "40P01"}
_NO_SUCH_TABLE = {"42P01", "3F000", "42703"}
# SQLSTATE classes: connection, integrity, data, and problems of the server itself.
_CONNECTION_CLASSES = {"08", "57"}
_REFUSAL_CLASSES = {"22", "23"}


def explain(error: DBAPIError | PoolTimeoutError, what: str) -> CheckpointError:
    """Return the error to raise when `what` failed before its COMMIT was sent."""
    if isinstance(error, PoolTimeoutError):
        return StoreUnavailableError(
            f"No connection to the metadata database became free in time for {what}. Nothing was changed. "
            "Too many threads of this process use the store at once; try again."
        )
    state = sqlstate(error)
    if setting := timeout_reached(error.orig):
        return StoreUnavailableError(
            f"The metadata database ended {what}, because it took longer than is allowed. Nothing was changed. "
            f"{setting}. Transactions on one pipeline wait for one another for up to a minute, so set it to 0 or "
            "to more than that for the role that runs pipelines, then run the step again."
        )
    if state in _CONFLICTS:
        return StoreUnavailableError(
            f"The metadata database ended {what} in favour of another transaction ({_first_line(str(error.orig))}). "
            "Nothing was changed. Run the step again."
        )
    if state == _IDLE_TOO_LONG:
        return StoreUnavailableError(
            f"The metadata database ended {what}: it received no statement for too long, because this process was "
            "stopped or got no processor time. Others may have continued the pipeline. Nothing was changed. Run the "
            "step again."
        )
    if state == _READ_ONLY:
        return StoreUnavailableError(
            f"The metadata database takes no writes, so {what} was refused. Nothing was changed. Either its URL leads "
            "to a standby, or default_transaction_read_only is on for this role. Let the URL lead to the primary "
            "(target_session_attrs=read-write), or reset the setting, then run the step again."
        )
    if state == _LOCK_NOT_AVAILABLE:
        return StoreUnavailableError(
            f"Another process has held the lock that {what} needs for too long. Nothing was changed. Try again; if "
            "it persists, find in pg_stat_activity the session of 'tidegate' that has been busy or idle in a "
            "transaction the longest. It is the holder."
        )
    if state in _NO_SUCH_TABLE:
        return ConfigurationError(
            f"The metadata database lacks a schema, table or column that {what} needs "
            f"({_first_line(str(error.orig))}). Nothing was changed. Run `tidegate db upgrade`."
        )
    if state == _INSUFFICIENT_PRIVILEGE:
        return ConfigurationError(
            f"The metadata database does not give this role the rights that {what} needs "
            f"({_first_line(str(error.orig))}). Nothing was changed. Run `tidegate db upgrade` as the owner of the "
            "schema: it gives the running role its rights."
        )
    if state[:2] in _REFUSAL_CLASSES:
        rule = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
        return RecordRefusedError(
            f"The metadata database refused {what}"
            f"{f', rule {rule}' if rule else ''}: {_first_line(str(error.orig))}. Nothing was changed. "
            "This is a fault in the caller or in Tidegate, not in your data: report it with this message."
        )
    if state == _TOO_MANY_CONNECTIONS or is_disconnect(error):
        return unreachable(str(error.orig), what)
    return StoreUnavailableError(
        f"The metadata database could not carry out {what} ({_first_line(str(error.orig))}). Nothing was changed. Fix "
        "the cause in the database, then run the step again."
    )


def unreachable(answer: str, what: str) -> StoreUnavailableError:
    """Return the error to raise when there is no connection for `what`. A server that refuses one
    answers in text only."""
    reason = _first_line(answer)
    if any(words in answer for words in _FULL):
        return StoreUnavailableError(
            f"The metadata database accepts no more connections ({reason}). Nothing was changed by {what}. Run the "
            "step again when others have ended. If it persists, check in pg_stat_activity which sessions hold them, or "
            "raise max_connections."
        )
    if any(words in answer for words in _IN_BETWEEN):
        return StoreUnavailableError(
            f"The metadata database is starting, stopping or recovering ({reason}). Nothing was changed by {what}. Run "
            "the step again in a moment."
        )
    return StoreUnavailableError(
        f"The metadata database cannot be reached ({reason}). Nothing was changed by {what}. "
        "Check that PostgreSQL runs and that its URL is right, then run the step again."
    )


def explain_commit(error: DBAPIError, what: str) -> CheckpointError:
    """Return the error to raise when the COMMIT of `what` itself failed."""
    if not is_disconnect(error):
        return explain(error, what)
    return UnknownOutcomeError(
        f"The connection to the metadata database was lost while {what} committed ({_first_line(str(error.orig))}). "
        "The commit may or may not have taken effect. Nothing was deleted, and nothing may be until this is known. Run "
        "the step again: it reads the recorded outcome and continues from there."
    )


def is_disconnect(error: DBAPIError) -> bool:
    """Whether the connection is gone. Without a SQLSTATE the server has not answered."""
    state = sqlstate(error)
    if state == QUERY_CANCELED:
        return False
    return error.connection_invalidated or not state or state[:2] in _CONNECTION_CLASSES


def is_repeatable(error: DBAPIError) -> bool:
    """Whether a statement that has changed nothing yet may be repeated on another connection."""
    return is_disconnect(error) or sqlstate(error) in _CONFLICTS


def sqlstate(error: DBAPIError) -> str:
    """Return the error's code, empty if the server has not answered."""
    return getattr(error.orig, "pgcode", None) or ""


def _first_line(answer: str) -> str:
    return (answer.strip().splitlines() or ["no message"])[0].rstrip(".")
