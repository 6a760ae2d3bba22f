"""A table of current rows in the store's database, which changes in the commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from committed_tables import Place
from savepoint_directories import CurrentSink

from tidegate.ports import CommitAttempt, CommitStatements, Participant, SinkCommit, StatementError
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import StateHandle


@dataclass
class _Replacing:
    """The table shows these rows and no others; none at all if there are no rows."""

    place: Place
    checkpoint_id: int
    rows: str | None

    def run(self, statements: CommitStatements) -> None:
        ids = [id_ for (id_,) in statements.query(self.place.ids())]
        statements.execute(self.place.show(ids, False))
        for statement in self.place.add(self.checkpoint_id, [self.rows]) if self.rows else ():
            statements.execute(statement)

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)


class CurrentTable(CurrentSink):
    """Shows what one checkpoint staged."""

    commits = SinkCommit.IN_THE_COMMIT

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    @property
    def current(self) -> tuple[int, bytes] | None:  # type: ignore[override]
        shown = [(id_, rows.encode()) for id_, rows in self.place.read()]
        assert len(shown) <= 1
        return shown[0] if shown else None

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        return self._replacing(checkpoint_id, staged)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        return self._replacing(checkpoint_id, staged)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        if staged and (self.current is None or self.current[0] < checkpoint_id):
            self.place.by_itself(self._replacing(checkpoint_id, staged))

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_rewind(checkpoint_id)
        self.place.by_itself(self._replacing(checkpoint_id, staged))

    def _replacing(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> _Replacing:
        rows = self._rows(checkpoint_id, staged)[1].decode() if staged else None
        return _Replacing(self.place, checkpoint_id, rows)


class OwnTable(CurrentTable):
    """In a place of its own."""

    def describe(self) -> dict[str, Any]:
        return {"type": "MemorySink", "path": "/tables/q"}
