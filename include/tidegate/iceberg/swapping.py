"""The change of a table in a transaction: it gets its next metadata file, if no other writer has changed it since."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from tidegate.iceberg import catalog
from tidegate.iceberg.names import TableName
from tidegate.ports import CommitStatements, StatementError
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.refusals import Occasion, refused
from tidegate.protocol.facts.errors import CheckpointError, SinkError

if TYPE_CHECKING:
    from tidegate.iceberg.changes import Change, Staged

#: Keys in the table's row of positions: checkpoints that are kept, and files that the table no longer refers to, with
#: the time since when, None until a process finds them after the commit. They are deleted once no reader can need them.
KEPT, RELEASED = "kept", "released"

#: Seconds by the clock of the database, which all processes share.
NOW = select(func.extract("epoch", func.clock_timestamp()))


@dataclass(frozen=True, slots=True)
class Work:
    """The change of a table. `checkpoint_id` is the checkpoint whose rows it then has; None if its rows stay. `back`:
    whether a restore is the reason."""

    name: TableName
    change: "Change"
    occasion: Occasion
    checkpoint_id: int | None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Swap:
    """See `ports.Participant`. A checkpoint is applied once. Without a checkpoint, the one that the table shows is not
    recorded anew. For a restore, `back` is true."""

    table: TableName
    change: "Change"
    staged: "Staged"
    occasion: Occasion
    checkpoint_id: int | None
    back: bool = False
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.table.target, self.attempt)
        if self.checkpoint_id is not None and not self.back and found.applied.has(self.checkpoint_id):
            return
        now, staged = catalog.locked_location(statements, self.table), self.staged
        if now != staged.base:
            from tidegate.iceberg.changes import staged as staged_on

            staged = staged_on(self.change, now)
        if staged.location is not None and not catalog.swap(statements, self.table, now, staged.location):
            raise SinkError(
                f"{self.occasion.what}: another writer has changed it in the same instant. {self.occasion.safe} Then "
                f"{self.occasion.again}."
            )
        record(statements, self.table, found, self.checkpoint_id, self.back, self.attempt, staged.released)

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.table.target, self.occasion)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A participant that records here which checkpoint a table of another catalog shows since a commit there."""

    table: TableName
    checkpoint_id: int | None
    back: bool
    attempt: int
    released: Collection[str]
    occasion: Occasion

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.table.target, self.attempt)
        record(statements, self.table, found, self.checkpoint_id, self.back, self.attempt, self.released)

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.table.target, self.occasion)


def record(
    statements: CommitStatements,
    table: TableName,
    found: positions.Position,
    checkpoint_id: int | None,
    back: bool,
    attempt: int | None,
    released: Collection[str],
) -> None:
    """Record which checkpoint the table shows, and the files that it no longer refers to. `found` is the record so far.
    Without a checkpoint the table shows the same one as before. `back`: it shows it by a restore."""
    recorded = contents(found.content)
    if released:
        recorded[RELEASED] = [*recorded.get(RELEASED, ()), [None, sorted(released)]]
    shows, applied = found.shows or 0, found.applied
    if checkpoint_id is not None:
        shows = checkpoint_id
        applied = applied.without(checkpoint_id) if back else applied.with_commit(checkpoint_id)
    positions.show(statements, table.target, shows, applied, attempt, json.dumps(recorded))


def contents(content: str | None) -> dict[str, Any]:
    """Return the record of a table from JSON."""
    found: dict[str, Any] = {} if content is None else json.loads(content)
    return found


def kept_of(content: str | None) -> Collection[int] | None:
    return contents(content).get(KEPT)


def released_before(content: str | None, seconds: float, readable_for: timedelta) -> list[str]:
    """Return files that were released so long before a time that no reader can need them."""
    batches = contents(content).get(RELEASED, ())
    limit = seconds - readable_for.total_seconds()
    return [file for at, files in batches if at is not None and at <= limit for file in files]


def lingering(content: str | None) -> list[str]:
    """Return all files that were released and are not deleted yet."""
    return [file for _, files in contents(content).get(RELEASED, ()) for file in files]


def with_kept(content: str | None, kept: Collection[int] | None, now: float) -> Mapping[str, Any]:
    """Return the record of a table whose commits have ended, with the kept checkpoints. The files that they released
    count from `now`, in seconds, and not from the statement that recorded them: its transaction may have waited long
    for another one, and readers saw the former table until its end."""
    recorded = contents(content)
    released = [[now if at is None else at, files] for at, files in recorded.get(RELEASED, ())]
    return {**recorded, RELEASED: released, **({} if kept is None else {KEPT: sorted(kept)})}


def without(content: str | None, deleted: Collection[str]) -> Mapping[str, Any]:
    """Return the record after some files have been deleted."""
    recorded, gone = contents(content), set(deleted)
    batches = ([at, [each for each in files if each not in gone]] for at, files in recorded.get(RELEASED, ()))
    return {**recorded, RELEASED: [batch for batch in batches if batch[1]]}
