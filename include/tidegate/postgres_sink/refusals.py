"""What it means for a user's table that the database refused a statement within the commit."""

from tidegate.ports import StatementError
from tidegate.postgres_sink.names import Target
from tidegate.protocol.facts.errors import CheckpointError, SinkError

_SAFE = "Nothing of the checkpoint is visible, and its rows are staged and safe."
_LOCK = "55P03"


def refused(error: StatementError, target: Target, checkpoint_id: int) -> CheckpointError:
    """The error to raise. It names the table, the constraint and, where the server says it, the row."""
    what = f"Table {target} did not take the rows of checkpoint {checkpoint_id}"
    said = f"{error.message}{f' ({error.detail})' if error.detail else ''}"
    rule = f"constraint {error.constraint}" if error.constraint else error.message
    if error.sqlstate.startswith("23"):
        other = f" of {error.table}" if error.table and error.table != str(target) else ""
        return SinkError(
            f"{what}, because of {rule}{other}: {said}. {_SAFE} Change the rows or the constraint: then repeat the "
            "finalize step, or let the checkpoint be aborted, and the next one brings the rows again."
        )
    if error.sqlstate == _LOCK:
        return SinkError(
            f"{what}: another session has held a lock on it for longer than a minute. {_SAFE} Find it in pg_locks and "
            "pg_stat_activity (state 'idle in transaction' is the usual one), end it, and repeat the finalize step."
        )
    if error.sqlstate == "42501":
        return SinkError(
            f"{what}, because the role lacks a right: {said}. {_SAFE} As the table's owner: GRANT SELECT, INSERT, "
            f"UPDATE, DELETE ON {target} TO the role that runs the pipeline; then repeat the finalize step."
        )
    if error.sqlstate in ("42P01", "3F000"):
        return SinkError(
            f"{what}: {said}. {_SAFE} Bring the table back, or let the sink make it (create=True); then repeat the "
            "finalize step."
        )
    if error.sqlstate.startswith("53"):
        return SinkError(f"{what}: {said}. {_SAFE} Make room in the database, then repeat the finalize step.")
    return SinkError(f"{what} ({error.sqlstate}): {said}. {_SAFE} Fix the cause, then repeat the finalize step.")


def lost_rows(target: Target, checkpoint_id: int, found: int, expected: int) -> SinkError:
    return SinkError(
        f"Of checkpoint {checkpoint_id}, {found} rows for table {target} were loaded, and {expected} were staged: the "
        "database has lost some since, as it does with unlogged tables when it crashes. Nothing is visible, and the "
        "staged rows are safe. Repeat the step: it loads them again."
    )
