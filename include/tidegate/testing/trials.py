"""A sink under trial: checkpoints are staged and committed as the coordinator does it, and what readers see is compared
with what they should see.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.ports import Branch, SinkCommit, SinkInput, StageContext, StateHandle
from tidegate.testing.attempts import KitAttempts
from tidegate.testing.deliveries import Delivery

Rows = Sequence[Mapping[str, Any]]


@dataclass
class Trial:
    """One sink in a place of its own, with the rows of each of its files."""

    sink: Any
    directory: Path
    schema: pa.Schema
    row: Callable[[int], Mapping[str, Any]]
    read: Callable[[Any], Rows]
    delivery: Delivery
    rows_of: dict[str, Rows] = field(default_factory=dict)
    committed: dict[int, list[StateHandle]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.attempts = KitAttempts(self.directory.with_suffix(".attempt"))
        self.writer = self.sink.writer()
        self._staged = 0

    @property
    def repeats(self) -> bool:
        """Whether readers may see rows again after a repetition."""
        return bool(self.sink.commits is SinkCommit.AT_LEAST_ONCE)

    def some_rows(self, *numbers: int) -> list[Mapping[str, Any]]:
        return [self.row(number) for number in numbers]

    def stage(self, checkpoint_id: int, rows: Rows, subtask: int = 0, attempt: int = 1) -> list[StateHandle]:
        """As a subtask does."""
        self._staged += 1
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self.schema)
        context = StageContext(checkpoint_id, subtask, attempt, f"u{self._staged}")
        handles: list[StateHandle] = self.writer.stage(table, context)
        assert sum(handle.rows for handle in handles) == len(rows), (
            f"{len(rows)} rows were staged, and the handles say {[handle.rows for handle in handles]}"
        )
        if handles:
            self.rows_of |= {handle.path: () for handle in handles} | {handles[0].path: rows}
        return handles

    def take(self, checkpoint_id: int, rows: Rows, subtask: int = 0) -> None:
        """A checkpoint from its beginning to its end."""
        self.commit(checkpoint_id, self.stage(checkpoint_id, rows, subtask))

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        """The next attempt at committing, from its beginning to its end."""
        self.delivery.commit(self.sink, checkpoint_id, staged, self.attempts.next())
        self.completed(checkpoint_id, staged)

    def rewind(self, checkpoint_id: int, branch: Branch) -> None:
        """The next attempt at a restore."""
        staged = self.committed[checkpoint_id]
        self.delivery.rewind(self.sink, checkpoint_id, branch, staged, self.attempts.next())

    def completed(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        """Readers are to see these rows from now on."""
        self.committed[checkpoint_id] = list(staged)

    def third(self) -> list[StateHandle]:
        """Two checkpoints are committed, and the third is staged by two subtasks, beside a file of an attempt that does
        not count. Of a sink of current rows one subtask has not changed."""
        current = self.sink.input is SinkInput.CURRENT
        carried = self.stage(1, self.some_rows(11, 12), subtask=1)
        self.commit(1, [*self.stage(1, self.some_rows(10)), *carried])
        self.commit(2, [*self.stage(2, self.some_rows(20, 21)), *(carried if current else [])])
        third = [*self.stage(3, self.some_rows(30, 31, 32)), *self.stage(3, self.some_rows(33), subtask=2)]
        self.stage(3, self.some_rows(999), subtask=0, attempt=7)
        return [*third, *(carried if current else [])]

    def expected(self, branch: Branch | None = None) -> list[Mapping[str, Any]]:
        """What readers should see: of an append all rows of the branch's checkpoints, of current rows the newest."""
        ids = [id_ for id_ in sorted(self.committed) if branch is None or id_ in branch]
        shown = ids[-1:] if self.sink.input is SinkInput.CURRENT else ids
        return [row for id_ in shown for handle in self.committed[id_] for row in self.rows_of[handle.path]]

    def shown(self) -> Counter[str]:
        return counted(self.read(self.sink))

    def check(self, when: str, *others: Sequence[Mapping[str, Any]]) -> None:
        """Readers see exactly the rows that they should, or those of another moment that is right, too."""
        shown = self.shown()
        possible = [counted(rows) for rows in (others or [self.expected()])]
        if any(shown == rows or (self.repeats and set(shown) == set(rows)) for rows in possible):
            return
        nearest = min(possible, key=lambda rows: (rows - shown).total() + (shown - rows).total())
        raise AssertionError(f"{when}, readers see {shown.total()} rows{difference(shown, nearest)}")


def counted(rows: Rows) -> Counter[str]:
    return Counter(repr(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:
    """A value in one of the forms that mean the same."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case Mapping():
            return sorted((key, _plain(each)) for key, each in value.items())
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def difference(found: Counter[str], expected: Counter[str]) -> str:
    """What is missing, and what should not be there."""
    return _listed(", missing", expected - found) + _listed(", not to be there", found - expected)


def _listed(what: str, rows: Counter[str]) -> str:
    return f"{what} ({rows.total()}): {'; '.join(list(rows.elements())[:3])}" if rows else ""
