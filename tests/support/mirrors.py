"""A sink of upserts that keeps its table in this process, and notices what it need not have been given."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate import StagedParquet
from tidegate.ports import Branch, CommitAttempt, SinkInput, Withdrawn
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.steps.sink_marks import DELETES, WHOLE

Rows = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(eq=False)
class Mirror(StagedParquet):
    """`tables` has the rows as of each checkpoint, by the first columns, which are the key, and `shown` which one it is
    at. `whole` lists the checkpoints that gave it all rows. A pipeline's copy of it shares them."""

    directory: str
    key: int = 1
    tables: dict[int, Rows] = field(default_factory=dict)
    whole: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=lambda: [0])

    @property
    def input(self) -> SinkInput:
        return SinkInput.UPSERTS

    @property
    def staged_in(self) -> str:
        return self.directory

    def describe(self) -> dict[str, Any]:
        return {"type": "Mirror", "path": self.directory}

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        table = dict(self.tables.get(self.shown[0], {}))
        if any(WHOLE in handle.details for handle in staged):
            assert all(WHOLE in handle.details for handle in staged), "half of it is all rows"
            self.whole.append(checkpoint_id)
            table = {}
        for handle in staged:
            self._apply(table, handle)
        self.shown[0], self.tables[checkpoint_id] = checkpoint_id, table

    def _apply(self, table: Rows, handle: StateHandle) -> None:
        for batch in self.batches([handle]):
            for row in batch.to_pylist():
                assert (row.pop("_delete", False) is True) == (DELETES in handle.details)
                values = tuple(_plain(value) for value in row.values())
                key = values[: self.key]
                if DELETES in handle.details:
                    assert key in table, f"{key} was not there"
                    del table[key]
                else:
                    assert table.get(key) != values, f"{key} is as it was"
                    table[key] = values

    def rewind(self, checkpoint_id: int) -> None:
        """Take the table back, as a restore does."""
        self.shown[0] = checkpoint_id

    # The rest of `ports.RewindableSink`. A sink without it is also given removed keys where it is given all rows.

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return []

    def withdrawn(self) -> list[int]:
        return []

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None: ...

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.tables.get(self.shown[0], {}).values(), key=repr)


def _plain(value: Any) -> Any:
    """As Spark gives it."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
