"""The errors of a database that refuses a statement for a user's table: the way out, and whether a retry helps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.ports import StatementError
from tidegate.postgres_sink.names import SCHEMA, Target
from tidegate.postgres_sink.tables import quoted, quoted_name
from tidegate.protocol.facts.errors import RowsRefusedError, SinkError, SinkUnavailableError

_LOCKED = "55P03"
_READ_ONLY = "25006"
_CANCELED = "57014"
_NO_RIGHT = "42501"
#: Codes for a missing table, schema or column, and a type that does not fit: the table was changed since the check.
_CHANGED = ("42P01", "3F000", "42703", "42804")
_DENIED = re.compile(r"permission denied for (table|view|schema|database) (.+)|must be owner of \w+ (.+)")


@dataclass(frozen=True, slots=True)
class Occasion:
    """The use of a statement that was refused: the failed step, the state of the data, and the step to repeat."""

    what: str
    safe: str
    again: str


def forward(target: Target, checkpoint_id: int, attempt: int | None) -> Occasion:
    """Return the occasion of writing a checkpoint's rows. Without an attempt, it is in the commit."""
    what = f"Table {target} did not take the rows of checkpoint {checkpoint_id}"
    if attempt is None:
        safe = "Nothing of the checkpoint is visible, and its rows are staged and safe."
        return Occasion(what, safe, "repeat the finalize step, or run again if the checkpoint was aborted")
    safe = "The checkpoint is complete, its rows are staged and safe, and readers of the table see the rows before it."
    return Occasion(what, safe, "repeat the notify step, or run again")


def rewind(target: Target, checkpoint_id: int, attempt: int | None) -> Occasion:
    """Return the occasion of a restore to a checkpoint. Without an attempt, it is in the restore's transaction."""
    what = f"Table {target} could not go back to its rows as of checkpoint {checkpoint_id}"
    if attempt is None:
        return Occasion(what, "The pipeline was not restored, and nothing was changed.", "restore again")
    safe = "The pipeline is restored, and readers of the table see the rows from before that."
    return Occasion(what, safe, "repeat the notify step, or run again")


def outside(target: Target) -> Occasion:
    """Return the occasion of a statement that does not change the table."""
    safe = "Rows that are staged are safe, and readers see the rows from before."
    return Occasion(f"The database of table {target} refused a statement", safe, "repeat the step")


def away(target: Target, message: str) -> SinkError:
    return SinkUnavailableError(
        f"The database of table {target} cannot be reached ({message}). {outside(target).safe} Check that it runs, "
        "then repeat the step."
    )


def refused(error: StatementError, target: Target, occasion: Occasion) -> SinkError:
    """Return the error to raise. It names the table, the constraint and, if the server reports it, the row."""
    kind, advice = _advised(error, target)
    message = f"{error.message}{f' ({error.detail})' if error.detail else ''}".rstrip(".")
    because = f", because of constraint {error.constraint}{_elsewhere(error, target)}" if error.constraint else ""
    code = f" ({error.sqlstate})" if kind is SinkError else ""
    return kind(f"{occasion.what}{because}{code}: {message}. {occasion.safe} {advice}; then {occasion.again}.")


def unfit(occasion: Occasion, problems: Sequence[str]) -> SinkError:
    """Return the error for a table that does not fit the rows."""
    return RowsRefusedError(f"{occasion.what}: {'; '.join(problems)}. {occasion.safe} Then {occasion.again}.")


def _elsewhere(error: StatementError, target: Target) -> str:
    return f" of {error.table}" if error.table and error.table != str(target) else ""


def _advised(error: StatementError, target: Target) -> tuple[type[SinkError], str]:
    state = error.sqlstate
    if state == _LOCKED:
        return SinkUnavailableError, (
            "Another session has held a lock on the table for longer than a minute. pg_locks shows which "
            f"(relation = '{quoted(target)}'::regclass), pg_stat_activity its state: mostly it is 'idle in "
            "transaction'. Let it end"
        )
    if state == _NO_RIGHT:
        return RowsRefusedError, _grant(error, target)
    if state in _CHANGED:
        if f"{SCHEMA}." in error.message:
            return SinkError, "Another process was faster, or that table was dropped"
        return RowsRefusedError, "The table was changed or dropped. Bring it back as it was, or change the pipeline"
    if state == _READ_ONLY:
        return SinkUnavailableError, "Let the connection lead to the primary, which takes writes"
    if state == _CANCELED:
        return SinkUnavailableError, "Raise statement_timeout for this role, or commit fewer rows at once"
    if state.startswith("40"):
        return SinkUnavailableError, "Another transaction came first, twice"
    if state.startswith("53"):
        return SinkUnavailableError, "Make room in the database, or raise that limit"
    if state.startswith("23"):
        return RowsRefusedError, "Change the rows or the constraint"
    if state.startswith("22"):
        return RowsRefusedError, "A value does not fit its column. Change the value in a transform, or the column"
    if state == "P0001":
        return RowsRefusedError, "A trigger of the table has refused it. Change the rows or the trigger"
    if state.startswith("54"):
        return RowsRefusedError, "A row is beyond a limit of Postgres. Change the rows or the table's indexes"
    return SinkError, "Fix the cause"


def _grant(error: StatementError, target: Target) -> str:
    """Return the statement that grants the role the right that it lacks."""
    denied = _DENIED.search(error.message)
    kind, name = (denied[1], denied[2] or denied[3] or "") if denied else ("", "")
    role = quoted_name(error.role) if error.role else "the role that runs the pipeline"
    if kind == "database":
        return f"As an administrator: CREATE SCHEMA {SCHEMA} AUTHORIZATION {role}"
    if kind == "schema" and name.strip('"') == SCHEMA:
        return f"As an administrator: GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {role}"
    if kind == "schema":
        schema = quoted_name(target.schema)
        return f"As the schema's owner: GRANT USAGE, CREATE ON SCHEMA {schema} TO {role} (CREATE only to make tables)"
    if denied and kind:
        other = "" if name == target.name else f", and the rights that its triggers need on {name}"
        return f"As the table's owner: GRANT SELECT, INSERT, UPDATE, DELETE ON {quoted(target)} TO {role}{other}"
    if denied:
        return f"As an administrator: ALTER TABLE {quoted(target)} OWNER TO {role}"
    return f"Give {role} that right on {quoted(target)}"


def lost_rows(target: Target, checkpoint_id: int, found: int, expected: int) -> SinkError:
    return SinkError(
        f"Of checkpoint {checkpoint_id}, {found} rows for table {target} were loaded, and {expected} were staged: the "
        "database has lost some since, as it does with unlogged tables when it crashes. Nothing of them is visible, "
        "and the staged rows are safe. Repeat the step: it loads them again."
    )
