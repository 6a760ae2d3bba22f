"""A sink under trial: checkpoints are staged and committed as the coordinator does it, and the rows that readers see
are compared with the expected ones.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.ports import Branch, KeyedSink, SinkCommit, SinkInput, StageContext, StateHandle
from tidegate.protocol.steps.sink_marks import DELETES, WHOLE
from tidegate.state.layout import DELETE
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
        """Whether readers may see rows twice after a repetition."""
        return bool(self.sink.commits is SinkCommit.AT_LEAST_ONCE)

    def some_rows(self, *numbers: int) -> list[Mapping[str, Any]]:
        return [self.row(number) for number in numbers]

    def stage(
        self, checkpoint_id: int, rows: Rows, subtask: int = 0, attempt: int = 1, schema: pa.Schema | None = None
    ) -> list[StateHandle]:
        """Stage rows as a subtask does."""
        self._staged += 1
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema or self.schema)
        context = StageContext(checkpoint_id, subtask, attempt, f"u{self._staged}")
        handles: list[StateHandle] = self.writer.stage(table, context)
        assert sum(handle.rows for handle in handles) == len(rows), (
            f"{len(rows)} rows were staged, but the handles report {[handle.rows for handle in handles]}"
        )
        if handles:
            self.rows_of |= {handle.path: () for handle in handles} | {handles[0].path: rows}
        return handles

    def take(self, checkpoint_id: int, rows: Rows, subtask: int = 0) -> None:
        """Run a checkpoint from its beginning to its end."""
        self.commit(checkpoint_id, self.stage(checkpoint_id, rows, subtask))

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        """Run the next attempt at committing."""
        self.delivery.commit(self.sink, checkpoint_id, staged, self.attempts.next())
        self.completed(checkpoint_id, staged)

    def rewind(self, checkpoint_id: int, branch: Branch) -> None:
        """Run the next attempt at a restore."""
        staged = self.committed[checkpoint_id]
        self.delivery.rewind(self.sink, checkpoint_id, branch, staged, self.attempts.next())

    def completed(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        """Record that readers see these rows from now on."""
        self.committed[checkpoint_id] = list(staged)

    def third(self) -> list[StateHandle]:
        """Commit two checkpoints, and stage a third by two subtasks, with a file of an attempt that does not count.

        For a sink of current rows, one subtask has not changed. For one of upserts, the second checkpoint changes a row
        of the first, and the third removes one of the second.
        """
        current, upserts = self.sink.input is SinkInput.CURRENT, bool(self.keys)
        carried = self.stage(1, self.some_rows(11, 12), subtask=1)
        self.commit(1, [*self.stage(1, self.some_rows(10)), *carried])
        changed = [self.changed(10, 25)] if upserts else []
        self.commit(2, [*self.stage(2, [*self.some_rows(20, 21), *changed]), *(carried if current else [])])
        third = [*self.stage(3, self.some_rows(30, 31, 32)), *self.stage(3, self.some_rows(33), subtask=2)]
        self.stage(3, self.some_rows(999), subtask=0, attempt=7)
        gone = self.stage_gone(3, 20) if upserts else []
        return [*third, *gone, *(carried if current else [])]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify rows of a sink of upserts."""
        keyed = self.sink.input is SinkInput.UPSERTS and isinstance(self.sink, KeyedSink)
        return tuple(self.sink.keys) if keyed else ()

    def changed(self, number: int, into: int) -> Mapping[str, Any]:
        """Return the row of a number, with the values of another one in all columns that are not keys."""
        row = self.row(number)
        return {**self.row(into), **{name: row[name] for name in self.keys}}

    def stage_gone(self, checkpoint_id: int, *numbers: int) -> list[StateHandle]:
        """Stage keys whose rows have left the state, as a subtask does."""
        rows = [{name: self.row(number)[name] for name in self.keys} | {DELETE: True} for number in numbers]
        schema = self.schema.append(pa.field(DELETE, pa.bool_()))
        return [replace(handle, details={DELETES: True}) for handle in self.stage(checkpoint_id, rows, schema=schema)]

    def stage_whole(self, checkpoint_id: int, rows: Rows) -> list[StateHandle]:
        """Stage all rows as the only subtask, for a sink that may lack some."""
        return [replace(handle, details={WHOLE: True}) for handle in self.stage(checkpoint_id, rows)]

    def expected(self, branch: Branch | None = None) -> list[Mapping[str, Any]]:
        """Return the rows that readers should see: of an append all rows of the branch's checkpoints, of current rows
        the newest.
        """
        return self.rows_at([id_ for id_ in sorted(self.committed) if branch is None or id_ in branch])

    def rows_at(self, ids: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return the rows that readers should see of these checkpoints."""
        if self.keys:
            return self._upserted(ids)
        shown = ids[-1:] if self.sink.input is SinkInput.CURRENT else ids
        return [row for id_ in shown for handle in self.committed[id_] for row in self.rows_of[handle.path]]

    def _upserted(self, ids: Sequence[int]) -> list[Mapping[str, Any]]:
        upserted: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for id_ in ids:
            if any(WHOLE in handle.details for handle in self.committed[id_]):
                upserted = {}
            for row in [row for handle in self.committed[id_] for row in self.rows_of[handle.path]]:
                key = tuple(row[name] for name in self.keys)
                upserted |= {key: row}
                if row.get(DELETE):
                    del upserted[key]
        return list(upserted.values())

    def shown(self) -> Counter[str]:
        return counted(self.read(self.sink))

    def check(self, when: str, *others: Sequence[Mapping[str, Any]]) -> None:
        """Check that readers see exactly the expected rows, or those of another moment that is allowed."""
        shown = self.shown()
        possible = [counted(rows) for rows in (others or [self.expected()])]
        if any(shown == rows or (self.repeats and set(shown) == set(rows)) for rows in possible):
            return
        nearest = min(possible, key=lambda rows: (rows - shown).total() + (shown - rows).total())
        raise AssertionError(f"{when}, readers see {shown.total()} rows{difference(shown, nearest)}")


def counted(rows: Rows) -> Counter[str]:
    return Counter(repr(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:
    """Return a value in a form that is equal for equal values."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case Mapping():
            return sorted((key, _plain(item)) for key, item in value.items())
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def difference(found: Counter[str], expected: Counter[str]) -> str:
    """Describe the rows that are missing, and those that should not be there."""
    return _listed(", missing", expected - found) + _listed(", not to be there", found - expected)


def _listed(what: str, rows: Counter[str]) -> str:
    return f"{what} ({rows.total()}): {'; '.join(list(rows.elements())[:3])}" if rows else ""
