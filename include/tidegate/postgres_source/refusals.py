"""What it means for a `PostgresSource` that the database refuses something, is away, or is another one."""

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
    """Whoever reads the table."""

    target: Target

    def wrong(self, why: str) -> PipelineDefinitionError:
        return PipelineDefinitionError(f"PostgresSource({str(self.target)!r}): {why}.")

    def away(self, said: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"The database of table {self.target} cannot be reached ({said}). {AS_BEFORE}Check that it runs, then "
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
        """What to raise for an error of the database."""
        return self.said(sqlstate(error) or "", first_line(error), role, is_disconnect(error))

    def said(self, state: str, message: str, role: str | None, is_gone: bool = False) -> CheckpointError:
        """The same for what it said. `state`: the SQLSTATE."""
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
                f"{what}The standby needed to replay what the rows stood in the way of. Repeat the step; "
                "hot_standby_feedback avoids it."
            )
        if state.startswith("22"):
            return MalformedRowsError(f"{what}Correct the value, or the schema= of the source.")
        return SourceUnavailableError(f"{what}Fix the cause, then repeat the step.")

    def another_cluster(self, known: Cluster, now: "Moment", position: Position | None) -> SourceChangedError:
        """Ids of transactions mean nothing there."""
        same = known.system == now.cluster.system
        what = f"The database of table {self.target} is cluster {now.cluster}, and what was read is of {known}."
        if same and position is not None:
            return SourceChangedError(
                f"{what} A standby was promoted, or a backup restored, and it is not known whether all that was read "
                f"is there. {AS_BEFORE}If nothing that was committed is missing, give the source "
                f'start="{now.cluster} {position.until or position.seen}", then run again. Otherwise restore the '
                "pipeline to a checkpoint that is older than what is missing, and give it the snapshot of that one."
            )
        before = "" if position is None else f" after {position.cluster} {position.seen}"
        return SourceChangedError(
            f"{what} Ids of transactions of one cluster mean nothing in another. {AS_BEFORE}If all was read before the "
            "table was moved, set its column to pg_current_xact_id() in all rows, in one transaction. Then, before "
            "others write to it, let SELECT pg_current_snapshot() say the snapshot, and give the source "
            f'start="{now.cluster} <snapshot>{before}". Then run again.'
        )

    def gone_back(self, position: Position, now: "Moment") -> SourceChangedError:
        return SourceChangedError(
            f"The database of table {self.target} has gone back: it is at transaction {now.ended.xmax}, and rows of "
            f"{position.until or position.seen} were read. It was restored from a backup, or has lost what it had not "
            f"yet written when it crashed. {AS_BEFORE}Restore the pipeline to a checkpoint that is older than the "
            "backup, then run again."
        )

    def of_the_future(self, id_: str, now: "Moment") -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has a row of transaction {id_}, and the database is at {now.xmax}: its rows were "
            f"brought from another cluster, or the column was set by hand. {AS_BEFORE}Set it to '0' in the rows that "
            "came with the table, before the first checkpoint, or as read-from-postgres.md says for a table that "
            "was moved. Then run again."
        )

    def without_place(self, columns: str) -> MalformedRowsError:
        return MalformedRowsError(
            f"A row of view {self.target} has null in one of {columns}, so it cannot be told when it came. {AS_BEFORE}"
            "Leave such rows out of the view, then run again."
        )

    def fewer(self, found: int, expected: int) -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has {found} of {expected} rows that this checkpoint reads: rows were deleted or "
            f'added to it since by others. {AS_BEFORE}Bring them back, or give the source on_change="ignore", which '
            "takes the rows that are there. Then run again."
        )

    def changed(self, rows: int) -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.target} has rows that were updated after they were polled (at least {rows}), so it is not "
            f"known what they were. {AS_BEFORE}Let rows be as they were inserted, or give the source "
            'on_change="ignore", which takes them as they are. Then run again.'
        )

    def behind(self) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"The standby that answers for table {self.target} has not replayed yet what is to be read. {AS_BEFORE}"
            "Repeat the step."
        )
