"""`SourceSuite`: tests that a source passes if it keeps the contract of `tidegate.ports.Source`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegate.ports import ArrowSource, BacklogSource, LaggingSource, RereadingSource, Segment
from tidegate.ports.declared_schemas import ddl_of
from tidegate.testing.every_type import EVERY_TYPE
from tidegate.testing.processes import Stopped, code_of, killed_before, steps_of
from tidegate.testing.source_trials import S, SourceTrial, SourceTrials
from tidegate.testing.trials import counted


class SourceSuite(SourceTrials[S]):
    """Tests of one source, for pytest. A subclass makes the source, and makes rows arrive.

    The tests poll and read as a pipeline does, without one. A poll is killed before each line of the source's package,
    in a process of its own, and stopped there until another attempt has polled. Rows that Arrow does not read are read
    by Spark, if the project has a fixture `spark` with a session. Abilities that the source does not have are not
    tested.

    Attributes:
        columns: The columns of the rows that arrive, by name, with Spark's types. A source with other columns overrides
            `row` too.
        other_columns: Whether the source also accepts a column `k` of integers with a `v` of any type.
        nulls: Whether each column may be null.
        many: The number of rows that arrive at once. Use a million from time to time.
        every: Interrupt a poll before every n-th line only. 1 interrupts it before all.

    Example:
        ```python
        import pyarrow.parquet as pq
        from tidegate import FileSource
        from tidegate.testing import SourceSuite


        class TestFileSource(SourceSuite):
            def source(self, directory, columns):
                return FileSource(str(directory), "parquet", schema=columns)

            def arrive(self, directory, rows):
                pq.write_table(rows, directory / f"{len(list(directory.iterdir()))}.parquet")
        ```
    """

    def test_it_says_what_it_is(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        source = self.trial(tmp_path, request).source
        described = source.describe()
        assert isinstance(described.get("type"), str), "describe() has no `type`"
        assert json.loads(json.dumps(described)) == described, "describe() is not JSON"
        assert source.describe() == described, "describe() returns a different result the second time"
        assert source.num_splits() >= 1, "num_splits() is less than one"
        assert ddl_of(source.schema), "`schema` names no column"

    def test_what_arrives_is_read_once(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        for round in range(3):
            rows = trial.arrive_numbered(*range(10 * round, 10 * round + 4))
            trial.check("After rows have arrived", trial.drain(10 * round + 1), rows)
            assert trial.take(10 * round + 9) == [], "a poll after everything was read returns a segment"

    def test_a_segment_is_replayed_whatever_has_arrived_since(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        trial = self.trial(tmp_path, request)
        for checkpoint_id in (1, 2):
            rows = trial.arrive_numbered(10 * checkpoint_id, 10 * checkpoint_id + 1)
            before = dict(trial.read)
            segments = trial.take(checkpoint_id)
            trial.arrive_numbered(10 * checkpoint_id + 5)
            replayed = [trial.source.replay(n, before.get(n), trial.read[n], trial.storage) for n in trial.read]
            again = [segment for segment in replayed if segment is not None]
            assert [segment.reference for segment in again] == [segment.reference for segment in segments], (
                "replay and poll return different segments"
            )
            trial.check("Replayed", again, trial.rows(segments))
            trial.check("Read again", segments, trial.rows(segments))
            if checkpoint_id == 1:
                trial.check("After the first poll", segments, rows)

    def test_a_poll_where_nothing_has_arrived_takes_nothing(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        trial = self.trial(tmp_path, request)
        assert trial.take(1) == [], "there is a segment, although no rows have arrived"
        assert trial.take(2) == []
        for split, taken in trial.read.items():
            assert trial.source.replay(split, None, taken, trial.storage) is None, "the replay of nothing is a segment"
        rows = trial.arrive_numbered(1, 2)
        trial.check("Rows after polls that took nothing", trial.drain(4), rows)

    def test_several_segments_are_read_at_once(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        segments: list[Segment] = []
        rows: list[Mapping[str, Any]] = []
        for checkpoint_id in range(1, 4):
            rows += trial.arrive_numbered(2 * checkpoint_id, 2 * checkpoint_id + 1)
            segments += trial.drain(10 * checkpoint_id)
        trial.check("Together", segments, rows)
        trial.check("The last one first", segments[::-1], rows)

    def test_spark_reads_the_same_rows(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        assert trial.rows_by_spark([], trial.source) == [], "Spark reads rows from no segments"
        rows = trial.arrive_numbered(1, 2, 3)
        read = trial.rows_by_spark(trial.drain(1), trial.source)
        assert counted(read) == counted(rows), f"Spark reads {read}"

    def test_a_restore_reads_again_what_came_after(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        first = trial.arrive_numbered(1, 2)
        trial.drain(1)
        kept = dict(trial.read)
        second = trial.arrive_numbered(3, 4)
        trial.drain(10)
        if isinstance(trial.source, RereadingSource):
            for split, taken in trial.read.items():
                since = trial.source.read_since(split, kept.get(split), taken, trial.storage)
                assert not since.missing, f"read_since reports {since.missing} as missing"
        trial.read = kept
        third = trial.arrive_numbered(5)
        trial.check("After a restore", trial.drain(20), [*second, *third])
        trial.read = {}
        trial.check("Begun anew", trial.drain(30), [*first, *second, *third])

    def test_a_poll_killed_anywhere_is_repeated(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        for trial, step in self._interrupted(tmp_path, request):
            ended = killed_before(step, Poll(trial), code_of(trial.source))
            assert not ended.error, f"A poll failed before it was killed before {step}:\n{ended.error}"
            rows = [self.row(number) for number in (3, 4)]
            trial.check(f"A poll was killed before {step}, and repeated", trial.drain(2), rows)

    def test_two_attempts_poll_at_once(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """Check that a stopped attempt, which continues when the other has acknowledged, changes nothing."""
        for trial, step in self._interrupted(tmp_path, request):
            zombie = Stopped(step, Poll(trial), code_of(trial.source))
            try:
                before = dict(trial.read)
                segments = trial.take(2)
                rows = trial.rows(segments)
            finally:
                zombie.go_on()
            replayed = [trial.source.replay(n, before.get(n), trial.read[n], trial.storage) for n in before]
            again = [segment for segment in replayed if segment is not None]
            trial.check(f"Replayed after another attempt, stopped before {step}, went on", again, rows)
            trial.arrive_numbered(5)
            left = [self.row(number) for number in (3, 4, 5)]
            trial.check(f"After another attempt, stopped before {step}, went on", [*segments, *trial.drain(3)], left)

    def _interrupted(self, tmp_path: Path, request: pytest.FixtureRequest) -> "list[tuple[SourceTrial, Any]]":
        trial = self._second(tmp_path, request)
        steps = steps_of(Poll(trial), code_of(trial.source))
        assert steps, f"No line of {', '.join(code_of(trial.source))} ran in a poll. Is the source's class elsewhere?"
        return [(self._second(tmp_path, request), step) for step in steps[:: self.every]]

    def _second(self, tmp_path: Path, request: pytest.FixtureRequest) -> SourceTrial:
        """Return a trial that has read some rows, while others have arrived since."""
        trial = self.trial(tmp_path, request)
        trial.arrive_numbered(1, 2)
        trial.drain(1)
        trial.arrive_numbered(3, 4)
        return trial

    def test_it_says_when_it_is_behind(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        source = trial.source
        if not isinstance(source, BacklogSource | LaggingSource):
            pytest.skip("the source is neither a BacklogSource nor a LaggingSource")
        trial.arrive_numbered(1, 2)
        trial.drain(1)
        for split in trial.unfinished(source):
            segment, _ = trial.poll(9, split, source)
            if isinstance(source, BacklogSource):
                assert not source.is_behind(split, segment), "is_behind() after everything was read"
            if isinstance(source, LaggingSource):
                pending = source.pending(split)
                assert pending is not None, "pending() is None after a poll"
                assert pending.pieces == 0, f"pending() is {pending} after everything was read"

    def test_null_is_a_value(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        if not self.nulls:
            pytest.skip("the suite says that no column is null")
        trial = self.trial(tmp_path, request)
        rows = trial.arrive([{**self.row(number), name: None} for number, name in enumerate(self.columns)])
        trial.check("After rows with nulls have arrived", trial.drain(1), rows)

    def test_every_type_is_read(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        if not self.other_columns:
            pytest.skip("the suite says that the source has columns of its own")
        wrong = []
        for kind, (_, values) in EVERY_TYPE.items():
            trial = self.trial(tmp_path, request, {"k": "BIGINT", "v": kind})
            rows = trial.arrive([{"k": number, "v": value} for number, value in enumerate([*values, None])])
            try:
                trial.check(kind, trial.drain(1), rows)
            except Exception as error:
                wrong.append(f"{kind}: {type(error).__name__}: {error}")
        assert not wrong, "\n".join(wrong)

    def test_many_rows_are_read_whole(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        trial = self.trial(tmp_path, request)
        rows = trial.arrive_numbered(*range(self.many))
        trial.check(f"After {self.many} rows have arrived", trial.drain(1), rows)

    def test_a_reader_travels_to_executors(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        pickling = pytest.importorskip("pyspark.cloudpickle", reason="pyspark is not installed")
        trial = self.trial(tmp_path, request)
        if not isinstance(trial.source, ArrowSource):
            pytest.skip("the source is not an ArrowSource")
        rows = trial.arrive_numbered(1, 2)
        reader = trial.source.arrow_reader(trial.drain(1))
        if reader is None:
            pytest.skip("Spark must read the source")
        travelled = pickling.loads(pickling.dumps(reader))
        rows_read = [row for batch in travelled.read(trial.schema) for row in batch.to_pylist()]
        assert sorted(map(repr, rows_read)) == sorted(repr(dict(row)) for row in rows)


class Poll:
    """A poll of each split of a trial's source, for its second checkpoint."""

    def __init__(self, trial: SourceTrial) -> None:
        self._trial = trial

    def __call__(self) -> None:
        source = self._trial.source
        for split in range(source.num_splits()):
            self._trial.poll(2, split, source)
