"""The modes of a `PostgresSink`: a class for each, with the same methods."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Select

from tidegate.ports import Branch, Participant, Withdrawn
from tidegate.postgres_sink import append, journal, reading, replace
from tidegate.postgres_sink.columns import RowColumn
from tidegate.postgres_sink.journal import Journal
from tidegate.postgres_sink.loading import Loaded
from tidegate.postgres_sink.names import CHECKPOINT, DELETE, Target
from tidegate.postgres_sink.tables import Existing
from tidegate.postgres_sink.upsert import RewindUpserted, Upsert, require_one_row_a_key


class Mode(Protocol):
    """A mode for one table. `existing` is the table as it is; None if there is none yet."""

    def reserved(self) -> Sequence[str]:
        """Return names that columns of rows may not have."""
        ...

    def shown(self, rows: Sequence[RowColumn]) -> list[RowColumn]:
        """Return those of the rows' columns that the table has."""
        ...

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether each row has a column with its checkpoint."""
        ...

    @property
    def key(self) -> tuple[str, ...]: ...

    def problems(self, connection: Connection, existing: Existing) -> list[str]:
        """Return a phrase for everything that the table lacks for this mode."""
        ...

    def make(self, connection: Connection, existing: Existing) -> None:
        """Make the side tables."""
        ...

    def check(self, connection: Connection, loaded: Loaded) -> Loaded:
        """Check loaded rows before the commit. Raise `SinkError`."""
        ...

    def shown_outside(self, connection: Connection, branch: Branch) -> list[Withdrawn]: ...
    def withdrawn(self, connection: Connection) -> list[int]: ...
    def delete_withdrawn(self, connection: Connection, checkpoint_ids: Collection[int]) -> None: ...
    def forget(self, connection: Connection, oldest: int) -> None:
        """Delete rows that only a restore to a checkpoint older than `oldest` would need."""
        ...


class ChangingMode(Mode, Protocol):
    """A mode that changes the existing table."""

    def forward(
        self, existing: Existing | None, checkpoint_id: int, loaded: Loaded | None, attempt: int | None, whole: bool
    ) -> Participant:
        """Return the participant of a checkpoint. `whole`: the table gets exactly these rows."""
        ...

    def rewind(
        self, existing: Existing | None, checkpoint_id: int, branch: Branch, attempt: int | None
    ) -> Participant: ...

    def rows_at(self, connection: Connection, existing: Existing, branch: Branch) -> Select[Any]:
        """Return the query for the table's rows as of the checkpoints of a branch."""
        ...


@dataclass(frozen=True, slots=True)
class Appending:
    target: Target
    key: tuple[str, ...] = ()
    keeps_checkpoint: bool = True

    def reserved(self) -> Sequence[str]:
        return [CHECKPOINT]

    def shown(self, rows: Sequence[RowColumn]) -> list[RowColumn]:
        return list(rows)

    def problems(self, connection: Connection, existing: Existing) -> list[str]:
        return []

    def make(self, connection: Connection, existing: Existing) -> None:
        append.make_withdrawn(connection, self.target, existing)

    def check(self, connection: Connection, loaded: Loaded) -> Loaded:
        return loaded

    def forward(
        self, existing: Existing | None, checkpoint_id: int, loaded: Loaded | None, attempt: int | None, whole: bool
    ) -> Participant:
        return append.Append(self.target, checkpoint_id, loaded, attempt)

    def rewind(self, existing: Existing | None, checkpoint_id: int, branch: Branch, attempt: int | None) -> Participant:
        columns = () if existing is None else journal.columns_of(existing)
        return append.RewindAppended(self.target, columns, checkpoint_id, branch, attempt)

    def rows_at(self, connection: Connection, existing: Existing, branch: Branch) -> Select[Any]:
        return reading.appended(connection, self.target, journal.columns_of(existing), branch)

    def shown_outside(self, connection: Connection, branch: Branch) -> list[Withdrawn]:
        return append.shown_outside(connection, self.target, branch)

    def withdrawn(self, connection: Connection) -> list[int]:
        return append.withdrawn(connection, self.target)

    def delete_withdrawn(self, connection: Connection, checkpoint_ids: Collection[int]) -> None:
        append.delete_withdrawn(connection, self.target, checkpoint_ids)

    def forget(self, connection: Connection, oldest: int) -> None:
        """Nothing is kept to be deleted: rows have a column with their checkpoint."""


@dataclass(frozen=True, slots=True)
class Upserting:
    target: Target
    key: tuple[str, ...]
    keeps_checkpoint: bool = False

    def reserved(self) -> Sequence[str]:
        return [CHECKPOINT, journal.THERE]

    def shown(self, rows: Sequence[RowColumn]) -> list[RowColumn]:
        return [row for row in rows if row.name != DELETE]

    def problems(self, connection: Connection, existing: Existing) -> list[str]:
        taken = [name for name in self.reserved() if existing.column(name) is not None]
        return [
            *self._keyless(existing),
            *(f"it has a column {name}, a name that the sink needs itself" for name in taken),
        ]

    def _keyless(self, existing: Existing) -> list[str]:
        if frozenset(self.key) in existing.unique:
            return []
        listed = ", ".join(self.key)
        return [f"it has no unique constraint on {listed}, the sink's key: ALTER TABLE … ADD UNIQUE ({listed})"]

    def make(self, connection: Connection, existing: Existing) -> None:
        journal.make(connection, self.target, existing)

    def check(self, connection: Connection, loaded: Loaded) -> Loaded:
        return require_one_row_a_key(connection, loaded, self.key, self.target)

    def _journal(self, existing: Existing | None) -> Journal | None:
        return None if existing is None else Journal(self.target, self.key, journal.columns_of(existing))

    def forward(
        self, existing: Existing | None, checkpoint_id: int, loaded: Loaded | None, attempt: int | None, whole: bool
    ) -> Participant:
        return Upsert(self._journal(existing), self.target, checkpoint_id, loaded, attempt, whole)

    def rewind(self, existing: Existing | None, checkpoint_id: int, branch: Branch, attempt: int | None) -> Participant:
        return RewindUpserted(self._journal(existing), self.target, checkpoint_id, branch, attempt)

    def rows_at(self, connection: Connection, existing: Existing, branch: Branch) -> Select[Any]:
        return reading.upserted(connection, Journal(self.target, self.key, journal.columns_of(existing)), branch)

    def shown_outside(self, connection: Connection, branch: Branch) -> list[Withdrawn]:
        return journal.shown_outside(connection, self.target, branch)

    def withdrawn(self, connection: Connection) -> list[int]:
        return journal.withdrawn(connection, self.target)

    def delete_withdrawn(self, connection: Connection, checkpoint_ids: Collection[int]) -> None:
        journal.delete_withdrawn(connection, self.target, checkpoint_ids)

    def forget(self, connection: Connection, oldest: int) -> None:
        journal.forget(connection, self.target, oldest)


@dataclass(frozen=True, slots=True)
class Replacing:
    """Needs no side table: a checkpoint that may be restored keeps all its rows as staged files."""

    target: Target
    key: tuple[str, ...] = ()
    keeps_checkpoint: bool = False

    def reserved(self) -> Sequence[str]:
        return []

    def shown(self, rows: Sequence[RowColumn]) -> list[RowColumn]:
        return list(rows)

    def problems(self, connection: Connection, existing: Existing) -> list[str]:
        return replace.problems(connection, self.target)

    def make(self, connection: Connection, existing: Existing) -> None: ...

    def check(self, connection: Connection, loaded: Loaded) -> Loaded:
        return loaded

    def shown_outside(self, connection: Connection, branch: Branch) -> list[Withdrawn]:
        return replace.shown_outside(connection, self.target, branch)

    def withdrawn(self, connection: Connection) -> list[int]:
        return []

    def delete_withdrawn(self, connection: Connection, checkpoint_ids: Collection[int]) -> None: ...
    def forget(self, connection: Connection, oldest: int) -> None: ...
