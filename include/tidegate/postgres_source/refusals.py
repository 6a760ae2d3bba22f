"""The errors of a `PostgresSource` whose database refuses a statement, is unreachable, or is another one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

from tidegate.postgres.outcomes import is_disconnect, sqlstate
from tidegate.postgres_sink.databases import first_line
from tidegate.postgres_sink.names import Target
from tidegate.postgres_sink.tables import quoted, quoted_name
from tidegate.postgres_source.positions import Cluster, Position
from tidegate.protocol.facts.errors import (
    CheckpointError,
    MalformedRowsError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.sources.read_errors import AS_BEFORE

if TYPE_CHECKING:
    from tidegate.postgres_source.servers import Moment

_NO_RIGHT, _CANCELED = "42501", "57014"
_CHANGED = ("42P01", "3F000", "42703", "42804", "42883")
_RECOVERY_CONFLICT = "40001"


@dataclass(frozen=True, slots=True)
class Reader:
    """The errors of a source that reads a table."""

    target: Target

    def wrong(self, why: str) -> PipelineDefinitionError:
        return PipelineDefinitionError(f"PostgresSource({str(self.target)!r}): {why}.")

    def away(self, message: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"The database of table {self.target} cannot be reached ({message}). {AS_BEFORE}Check that it runs, then "
            "repeat the step."
        )

    def no_table(self) -> PipelineDefinitionError:
        return self.wrong(
            "there is no such table, or the role may not use its schema. Make it, or: GRANT USAGE ON SCHEMA "
            f"{quoted_name(self.target.schema)} TO the role of the connection"
        )

    def unfit(self, problems: list[str]) -> PipelineDefinitionError:
        return self.wrong("; ".join(problems))

    def refused(self, error: DBAPIError, role: str | None) -> CheckpointError:
        """Return the error to raise for one of the database."""
        return self.explained(sqlstate(error) or "", first_line(error), role, is_disconnect(error))

    def explained(self, state: str, message: str, role: str | None, is_gone: bool = False) -> CheckpointError:
        """Return the error to raise for a message of the database. `state` is its SQLSTATE."""
        if is_gone or (state[:2] in ("08", "53", "57") and state != _CANCELED):
            return self.away(message)
        what = f"Table {self.target} cannot be read: {message}. {AS_BEFORE}"
        if state == _NO_RIGHT:
            to = quoted_name(role) if role else "the role of the connection"
            return PipelineDefinitionError(
                f"{what}As its owner: GRANT SELECT ON {quoted(self.target)} TO {to}, and GRANT USAGE ON SCHEMA "
                f"{quoted_name(self.target.schema)} TO {to}. Then repeat the step."
            )
        if state in _CHANGED:
            return SourceChangedError(
                f"{what}The table was changed or dropped. Bring it back as it was, or change the schema= of its source."
            )
        if state == _CANCELED:
            return SourceUnavailableError(f"{what}Raise statement_timeout for this role, or give the source max_rows=.")
        if state.startswith("40"):
            return SourceUnavailableError(
                f"{what}The query conflicted with rows that the standby had to replay. Repeat the step; "
                "hot_standby_feedback avoids it."
            )
        if state.startswith("22"):
            return MalformedRowsError(f"{what}Correct the value, or the schema= of the source.")
        return SourceUnavailableError(f"{what}Fix the cause, then repeat the step.")

    def another_cluster(self, known: Cluster, now: "Moment", position: Position | None) -> SourceChangedError:
        """Return the error for a cluster that has other ids of transactions."""
        same = known.system == now.cluster.system
        what = f"The database of table {self.target} is cluster {now.cluster}, and the rows read before are of {known}."
        if same and position is not None:
            return SourceChangedError(
                f"{what} A standby was promoted, or a backup restored, and it is unknown whether it has all rows that "
                f"were read. {AS_BEFORE}If nothing that was committed is missing, give the source "
                f'start="{now.cluster} {position.until or position.seen}", then run again. Otherwise restore the '
                "pipeline to a checkpoint that is older than the missing rows, and give it the snapshot of that "
                "checkpoint."
            )
        before = "" if position is None else f" after {position.cluster} {position.seen}"
        return SourceChangedError(
            f"{what} Ids of transactions of one cluster mean nothing in another. {AS_BEFORE}If all was read before the "
            "table was moved, set its column to pg_current_xact_id() in all rows, in one transaction. Then, before "
            "others write to it, take the snapshot from SELECT pg_current_snapshot(), and give the source "
            f'start="{now.cluster} <snapshot>{before}". Then run again.'
        )

    def gone_back(self, position: Position, now: "Moment") -> SourceChangedError:
        return SourceChangedError(
            f"The database of table {self.target} has gone back: it is at transaction {now.ended.xmax}, and rows of "
            f"{position.until or position.seen} were read. It was restored from a backup, or has lost transactions "
            f"that were not yet written when it crashed. {AS_BEFORE}Restore the pipeline to a checkpoint that is older "
            "than the backup, then run again."
        )

    def of_the_future(self, id_: str, now: "Moment") -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has a row of transaction {id_}, and the database is at {now.xmax}: its rows were "
            f"brought from another cluster, or the column was set by hand. {AS_BEFORE}Set it to '0' in the rows that "
            "came with the table, before the first checkpoint, or follow read-from-postgres.md for a table that "
            "was moved. Then run again."
        )

    def without_place(self, columns: str) -> MalformedRowsError:
        return MalformedRowsError(
            f"A row of view {self.target} has null in one of {columns}, so its transaction and key are unknown. "
            f"{AS_BEFORE}Leave such rows out of the view, then run again."
        )

    def fewer(self, found: int, expected: int) -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has {found} of {expected} rows that this checkpoint reads: rows were deleted or "
            f'added to it since by others. {AS_BEFORE}Bring them back, or give the source on_change="ignore", which '
            "takes the rows that are there. Then run again."
        )

    def changed(self, rows: int) -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has rows that were updated after they were polled (at least {rows}), so their former "
            f"values are lost. {AS_BEFORE}Leave rows as they were inserted, or give the source "
            'on_change="ignore", which takes them as they are. Then run again.'
        )

    def behind(self) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"The standby that answers for table {self.target} has not replayed yet the rows to be read. {AS_BEFORE}"
            "Repeat the step."
        )
