"""The methods that a subclass of `SourceSuite` overrides, and the trial of one source."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pytest

from tidegate.ports import ArrowSource, Segment, Snapshot, Source, SourceContext
from tidegate.ports.arrow_reading import LeftToSparkError
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.testing.every_type import EVERY_TYPE
from tidegate.testing.trials import Rows, counted, difference

S = TypeVar("S", bound=Source)

#: The number of polls after which a source that always has more fails.
_MOST = 1000


class SourceTrials(Generic[S]):
    """The part of `SourceSuite` that a subclass fills in. `SourceSuite` has the docstring."""

    columns: Mapping[str, str] = {"k": "BIGINT", "v": "STRING"}
    other_columns: bool = False
    nulls: bool = True
    many: int = 100_000
    every: int = 1

    def source(self, directory: Path, columns: str) -> S:
        """Make a source that reads from a place. It is made several times, as several processes make it.

        Args:
            directory: The place. Each place has its own rows.
            columns: The columns of the rows, as DDL.

        Returns:
            The source.
        """
        raise NotImplementedError(f"{type(self).__name__}.source is missing. It has to make the source.")

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        """Make rows arrive.

        Args:
            directory: The place.
            rows: The rows, which follow the existing ones.
        """
        raise NotImplementedError(f"{type(self).__name__}.arrive is missing. It has to make rows arrive.")

    def row(self, number: int) -> Mapping[str, Any]:
        """Make a row of `columns`, a different one for each number.

        Args:
            number: The number, which grows from one row to the next.

        Returns:
            The row.
        """
        return {"k": number, "v": f"row {number}"}

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))

    def trial(
        self, tmp_path: Path, request: pytest.FixtureRequest, columns: Mapping[str, str] | None = None
    ) -> "SourceTrial":
        """Put a source on trial, in a new place.

        Args:
            tmp_path: The directory in which places are created.
            request: The request that has a fixture `spark`, for a source that Arrow does not read.
            columns: The columns, if they differ from the suite's.

        Returns:
            The trial.
        """
        directory = tmp_path / f"source-{len(list(tmp_path.glob('source-*')))}"
        directory.mkdir()
        return SourceTrial(self, directory, request, dict(columns or self.columns))


@dataclass
class SourceTrial:
    """One source, and its position. Each step uses a new source object, so nothing is kept in memory."""

    suite: SourceTrials[Any]
    directory: Path
    request: pytest.FixtureRequest
    columns: Mapping[str, str]
    read: dict[int, Snapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = ArrowCheckpointStorage(str(self.directory.with_suffix(".checkpoints")))
        self.schema = pa.schema({name: EVERY_TYPE[kind][0] for name, kind in self.columns.items()})
        self._written = 0

    @property
    def source(self) -> Any:
        return self.suite.source(self.directory, ", ".join(f"{name} {kind}" for name, kind in self.columns.items()))

    def arrive(self, rows: Rows) -> Rows:
        self.suite.arrive(self.directory, pa.Table.from_pylist([dict(row) for row in rows], schema=self.schema))
        return rows

    def arrive_numbered(self, *numbers: int) -> Rows:
        return self.arrive([self.suite.row(number) for number in numbers])

    def poll(self, checkpoint_id: int, split: int = 0, source: Any = None) -> tuple[Segment | None, Snapshot]:
        """Return one attempt's poll. It does not count until it is `taken`."""
        self._written += 1
        prefix = f"kit/chk-{checkpoint_id}/in/{split}-1-{self._written}"
        other_splits = [snapshot for other, snapshot in self.read.items() if other != split]
        context = SourceContext(self.storage, checkpoint_id, prefix, other_splits)
        segment, snapshot = (source or self.source).poll(split, self.read.get(split), context)
        return through_json(segment), stored(snapshot)

    def take(self, checkpoint_id: int) -> list[Segment]:
        """Poll each split once, for a checkpoint that completes. All splits start from the same snapshots."""
        source = self.source
        polled = {split: self.poll(checkpoint_id, split, source) for split in self.unfinished(source)}
        self.read |= {split: snapshot for split, (_, snapshot) in polled.items()}
        return [segment for segment, _ in polled.values() if segment is not None]

    def unfinished(self, source: Any) -> list[int]:
        return [split for split in range(source.num_splits()) if not self.read.get(split, Snapshot()).finished]

    def drain(self, checkpoint_id: int) -> list[Segment]:
        """Run checkpoints until no data is left: a source may read a part at a time."""
        segments: list[Segment] = []
        for number in range(_MOST):
            if not (more := self.take(checkpoint_id + number)):
                return segments
            segments += more
        raise AssertionError(f"after {_MOST} polls the source still has more data, after {len(segments)} segments")

    def rows(self, segments: Sequence[Segment], source: Any = None) -> Rows:
        """Return the rows of segments, by Arrow if the source supports it, else by Spark."""
        if not segments:
            return []
        source = source or self.source
        reader = source.arrow_reader(segments) if isinstance(source, ArrowSource) else None
        if reader is not None:
            try:
                batches = list(reader.read(self.schema))
            except LeftToSparkError:
                return self.rows_by_spark(segments, source)
            return [row for batch in batches for row in batch.to_pylist()]
        return self.rows_by_spark(segments, source)

    def rows_by_spark(self, segments: Sequence[Segment], source: Any) -> Rows:
        try:
            spark = self.request.getfixturevalue("spark")
        except pytest.FixtureLookupError:
            pytest.skip("Spark must read the source, and there is no fixture `spark` with a session")
        frame = source.read(spark, segments)
        assert frame.columns == list(self.columns), f"Spark reads the columns {frame.columns}"
        rows: Rows = frame.toArrow().to_pylist()  # `collect` drops the time zone
        return rows

    def check(self, when: str, segments: Sequence[Segment], expected: Rows) -> None:
        rows, expected_rows = counted(self.rows(segments)), counted(expected)
        assert rows == expected_rows, f"{when}, the segments hold {rows.total()} rows{difference(rows, expected_rows)}"


def through_json(segment: Segment | None) -> Segment | None:
    """Return a segment as it is read back from data in flight."""
    return None if segment is None else replace(segment, reference=json.loads(json.dumps(dict(segment.reference))))


def stored(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it is read back from the database."""
    return replace(snapshot, position=json.loads(json.dumps(snapshot.position)))
