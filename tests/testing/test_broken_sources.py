"""Sources with one mistake each: the suite notices it, in the test that is about it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import for_each

from tidegate import RangeSource
from tidegate.ports import CheckpointStorage, Segment, Snapshot, SourceContext
from tidegate.testing import SourceSuite


class Log(RangeSource):
    """Files with numbers, of which each has some rows. Nothing is wrong with it."""

    def __init__(self, directory: str, schema: str) -> None:
        self.directory, self.schema = directory, schema

    def latest(self, split: int, position: Any) -> Any:
        return len(list(Path(self.directory).iterdir())) or None

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        for number in range(start or 0, end):
            yield from pq.read_table(Path(self.directory, f"{number}.parquet")).to_batches()

    def describe(self) -> dict[str, Any]:
        return {"type": "Log", "path": self.directory}


class Rewound(Log):
    """It reads everything each time."""

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        return super().read_between(split, None, end)


class Open(Log):
    """It reads what is there, and not what was there."""

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        return super().read_between(split, start, self.latest(split, start))


class Remembering(Log):
    """It keeps its position in memory."""

    seen = 0

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        before, self.seen = self.seen, self.latest(split, None) or 0
        there = {"split": 0, "splits": 1, "from": before, "to": self.seen or 0}
        return (None if before == self.seen else Segment(0, there, 0)), Snapshot((), there)


class Replaced(Log):
    """What a replay returns is what would be polled now."""

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        start = None if restored is None or restored.position is None else restored.position["to"]
        return Segment(0, {"split": 0, "from": start, "to": self.latest(split, start)}, 0)


class Eager(Log):
    """There is always a segment."""

    def latest(self, split: int, position: Any) -> Any:
        return (super().latest(split, position) or 0) + 1

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        return super().read_between(split, start and start - 1, end - 1)


class Choosy(Log):
    """It leaves out rows with null."""

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        for batch in super().read_between(split, start, end):
            yield batch.drop_null()


class Short(Log):
    """It reads one batch of a file."""

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        for number in range(start or 0, end):
            path = Path(self.directory, f"{number}.parquet")
            yield from pq.read_table(path).to_batches(max_chunksize=65_536)[:1]


class Noting(Log):
    """It notes in a file what it has polled."""

    def latest(self, split: int, position: Any) -> Any:
        note = Path(f"{self.directory}.note")
        done = int(note.read_text()) if note.exists() else 0
        there = super().latest(split, position) or 0
        if there > done:
            note.write_text(str(there))
            return there
        return position


class Cryptic(Log):
    def describe(self) -> dict[str, Any]:
        return {"path": self.directory}


class Rooted(Log):
    """It has something that does not leave the process."""

    def __init__(self, directory: str, schema: str) -> None:
        super().__init__(directory, schema)
        self.iterator = iter(())
        self.generator = (each for each in ())


NOTICED: list[tuple[type[Log], str]] = [
    (Rewound, "test_what_arrives_is_read_once"),
    (Open, "test_a_segment_is_replayed_whatever_has_arrived_since"),
    (Remembering, "test_what_arrives_is_read_once"),
    (Replaced, "test_a_segment_is_replayed_whatever_has_arrived_since"),
    (Eager, "test_a_poll_where_nothing_has_arrived_takes_nothing"),
    (Choosy, "test_null_is_a_value"),
    (Short, "test_many_rows_are_read_whole"),
    (Noting, "test_a_poll_killed_anywhere_is_repeated"),
    (Noting, "test_a_restore_reads_again_what_came_after"),
    (Cryptic, "test_it_says_what_it_is"),
    (Rooted, "test_a_reader_travels_to_executors"),
]


def suite_of(kind: type[Log]) -> type[SourceSuite[Log]]:
    class Suite(SourceSuite[Log]):
        other_columns = True

        def source(self, directory: Path, columns: str) -> Log:
            return kind(str(directory), columns)

        def arrive(self, directory: Path, rows: pa.Table) -> None:
            pq.write_table(rows, directory / f"{len(list(directory.iterdir()))}.parquet")

    return Suite


class WithoutSpark:
    """A `pytest.FixtureRequest` in a project that has no fixture `spark`."""

    def getfixturevalue(self, name: str) -> None:
        raise pytest.FixtureLookupError(name, self)  # type: ignore[arg-type]


@for_each(("kind", "test"), NOTICED)
def test_a_mistake_is_noticed(kind: type[Log], test: str, tmp_path: Path) -> None:
    for source, is_right in ((Log, True), (kind, False)):
        directory = tmp_path / f"{source.__name__}-{kind.__name__}-{test[:40]}"
        directory.mkdir()
        run = getattr(suite_of(source)(), test)
        if is_right:
            run(directory, WithoutSpark())
        else:
            with pytest.raises((AssertionError, TypeError)):
                run(directory, WithoutSpark())
