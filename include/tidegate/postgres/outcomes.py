"""What a database error means for the user: refused, nothing happened, or unknown.

The only question that matters is whether the COMMIT was on its way (protocol.md section 6). Before it, nothing was
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
# What PostgreSQL says when it refuses a connection; libpq passes on no SQLSTATE then.
_FULL = (
    "too many clients already",
    "remaining connection slots are reserved",
    "too many connections for",
    "no more connections allowed",
)
_IN_BETWEEN = ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")
_READ_ONLY = "25006"
_IDLE_TOO_LONG = "25P03"
#: A serialisation failure and a deadlock: nothing is wrong, and another transaction came first.
_CONFLICTS = {"40001", "40P01"}
_NO_SUCH_TABLE = {"42P01", "3F000", "42703"}
# SQLSTATE classes: connection, integrity, data, and the server's own trouble.
_CONNECTION_CLASSES = {"08", "57"}
_REFUSAL_CLASSES = {"22", "23"}


def explain(error: DBAPIError | PoolTimeoutError, what: str) -> CheckpointError:
    """The error to raise when `what` failed before its COMMIT was sent."""
    if isinstance(error, PoolTimeoutError):
        return StoreUnavailableError(
            f"No connection to the metadata database became free in time for {what}. Nothing was changed. "
            "Too many threads of this process use the store at once; try again."
        )
    state = sqlstate(error)
    if said := timeout_reached(error.orig):
        return StoreUnavailableError(
            f"The metadata database ended {what}, because it took longer than is allowed. Nothing was changed. {said}. "
            "Transactions on one pipeline wait for one another for up to a minute, so set it to 0 or to more than that "
            "for the role that runs pipelines, then run the step again."
        )
    if state in _CONFLICTS:
        return StoreUnavailableError(
            f"The metadata database ended {what} in favour of another transaction ({_first_line(str(error.orig))}). "
            "Nothing was changed. Run the step again."
        )
    if state == _IDLE_TOO_LONG:
        return StoreUnavailableError(
            f"The metadata database ended {what}: for too long nothing was asked in it, because this process was "
            "stopped or had no processor. Others may have gone on with the pipeline. Nothing was changed. Run the step "
            "again."
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
            "it persists, look in pg_stat_activity for the session of 'tidegate' that has been busy or idle in a "
            "transaction the longest: it is the holder."
        )
    if state in _NO_SUCH_TABLE:
        return ConfigurationError(
            f"The metadata database lacks what {what} needs ({_first_line(str(error.orig))}). Nothing was changed. "
            "Run `tidegate db upgrade`."
        )
    if state == _INSUFFICIENT_PRIVILEGE:
        return ConfigurationError(
            f"The metadata database does not let this role do what {what} needs ({_first_line(str(error.orig))}). "
            "Nothing was changed. Run `tidegate db upgrade` as the owner of the schema: it gives the running role its "
            "rights."
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
    """The error to raise when there is no connection for `what`. A server that refuses one says so in words only."""
    said = _first_line(answer)
    if any(words in answer for words in _FULL):
        return StoreUnavailableError(
            f"The metadata database accepts no more connections ({said}). Nothing was changed by {what}. Run the step "
            "again when others have ended; if it persists, look in pg_stat_activity for who holds them, or raise "
            "max_connections."
        )
    if any(words in answer for words in _IN_BETWEEN):
        return StoreUnavailableError(
            f"The metadata database is starting, stopping or recovering ({said}). Nothing was changed by {what}. Run "
            "the step again in a moment."
        )
    return StoreUnavailableError(
        f"The metadata database cannot be reached ({said}). Nothing was changed by {what}. "
        "Check that PostgreSQL runs and that its URL is right, then run the step again."
    )


def explain_commit(error: DBAPIError, what: str) -> CheckpointError:
    """The error to raise when the COMMIT of `what` itself failed."""
    if not is_disconnect(error):
        return explain(error, what)
    return UnknownOutcomeError(
        f"The connection to the metadata database was lost while {what} committed ({_first_line(str(error.orig))}). "
        "The commit may or may not have taken effect. Nothing was deleted, and nothing may be until this is known. Run "
        "the step again: it reads what was recorded and continues from there."
    )


def is_disconnect(error: DBAPIError) -> bool:
    """Whether the connection is gone. Without a SQLSTATE the server has not answered."""
    state = sqlstate(error)
    if state == QUERY_CANCELED:
        return False
    return error.connection_invalidated or not state or state[:2] in _CONNECTION_CLASSES


def is_repeatable(error: DBAPIError) -> bool:
    """Whether what has not changed anything yet may simply be asked again, on another connection."""
    return is_disconnect(error) or sqlstate(error) in _CONFLICTS


def sqlstate(error: DBAPIError) -> str:
    """The error's code; empty if the server has not answered."""
    return getattr(error.orig, "pgcode", None) or ""


def _first_line(answer: str) -> str:
    return (answer.strip().splitlines() or ["no message"])[0].rstrip(".")
