"""A source of a user's own on `RangeSource`: what it remembers, reads again, and says of what goes wrong."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from tidegate import RangeSource
from tidegate.ports import ArrowSource, CheckpointStorage, Segment, Snapshot, SourceContext
from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError, SourceUnavailableError

Contexts = Callable[..., SourceContext]


@dataclass
class Numbers(RangeSource):
    """What has been written to a log so far, of which some rows may be malformed."""

    end: Any
    splits: int = 1
    rows: Callable[[int], dict[str, Any]] = lambda n: {"other": 0, "n": n}
    schema: str = "n BIGINT"

    def latest(self, split: int, position: Any) -> Any:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def read_between(self, split: int, start: Any, end: Any) -> Iterable[pa.RecordBatch]:
        for n in range(start or 0, end):
            yield pa.RecordBatch.from_pylist([self.rows(n)])

    def describe(self) -> dict[str, Any]:
        return {"type": "Numbers"}


def through_json(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, position=json.loads(json.dumps(snapshot.position)))


def read(source: RangeSource, *segments: Segment | None) -> list[Any]:
    reader = source.arrow_reader([segment for segment in segments if segment is not None])
    batches: Iterator[pa.RecordBatch] = reader.read(pa.schema({"n": pa.int64()}))
    return pa.Table.from_batches(batches, pa.schema({"n": pa.int64()}))["n"].to_pylist()


def test_a_poll_takes_what_follows_and_a_replay_takes_it_again(context: Contexts, storage: CheckpointStorage) -> None:
    source = Numbers(3)
    first, taken = source.poll(0, None, context(1))
    source.end = 5
    second, after = source.poll(0, through_json(taken), context(2))
    nothing, same = source.poll(0, through_json(after), context(3))
    assert (read(source, first), read(source, second), read(source, first, second)) == ([0, 1, 2], [3, 4], [*range(5)])
    assert nothing is None
    assert source.replay(0, taken, through_json(after), storage) == second
    assert source.replay(0, None, through_json(taken), storage) == first
    assert source.replay(0, after, through_json(same), storage) is None
    assert isinstance(source, ArrowSource)


def test_what_ends_is_polled_no_more_and_sizes_are_told(context: Contexts) -> None:
    class Ending(Numbers):
        def has_ended(self, split: int, position: Any) -> bool:
            return position == 3

        def size(self, split: int, start: Any, end: Any) -> int:
            return 8 * (end - (start or 0))

    segment, snapshot = Ending(3).poll(0, None, context(1))
    assert segment is not None
    assert (segment.bytes, snapshot.finished) == (24, True)
    assert not Ending(2).poll(0, None, context(1))[1].finished


def test_positions_of_another_number_of_splits_are_divided_or_refused(context: Contexts) -> None:
    class Divided(Numbers):
        def divide(self, split: int, positions: Mapping[int, Any]) -> Any:
            return min(positions.values())

    before = [Numbers(end, splits=2).poll(split, None, context(1, split))[1] for split, end in enumerate((4, 7))]
    other_splits = replace(context(2), other_splits=before[1:])
    with pytest.raises(PipelineDefinitionError, match=r"Numbers has 1 splits, and its positions are of 2\."):
        Numbers(9).poll(0, before[0], other_splits)
    segment, _ = Divided(9).poll(0, before[0], other_splits)
    assert segment is not None
    assert read(Divided(9), segment) == [4, 5, 6, 7, 8]
    with pytest.raises(PipelineDefinitionError, match="Numbers has 3 splits"):
        Numbers(9, splits=3).poll(2, None, replace(context(2), other_splits=before))  # a new one has no snapshot


@pytest.mark.parametrize("position", [{1, 2}, float("nan"), b"x"], ids=str)
def test_a_position_is_json(position: Any, context: Contexts) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"Numbers has the position .*, which is not JSON"):
        Numbers(position).poll(0, None, context(1))


def test_a_source_that_is_away_is_told_from_rows_that_do_not_fit(context: Contexts) -> None:
    with pytest.raises(SourceUnavailableError, match="Numbers cannot be reached: split 0 could not be polled"):
        Numbers(ConnectionError("refused")).poll(0, None, context(1))

    def away(n: int) -> dict[str, Any]:
        raise TimeoutError("nobody answers")

    cases: Sequence[tuple[Callable[[int], dict[str, Any]], type[Exception], str]] = [
        (lambda n: {"n": "x"}, MalformedRowsError, "Numbers, split 0 from None to 2: column 'n' is string, and does"),
        (lambda n: {"m": 1}, MalformedRowsError, "there is no column 'n' among m"),
        (away, SourceUnavailableError, "split 0 from None to 2 could not be read .TimeoutError: nobody answers"),
    ]
    for rows, kind, text in cases:
        source = Numbers(2, rows=rows)
        segment, _ = source.poll(0, None, context(1))
        with pytest.raises(RuntimeError) as raised:
            read(source, segment)
        spark = RuntimeError(f"Job aborted: {raised.value}\n  at java.lang.Thread")
        explained = source.explain(spark, [])
        assert explained is not None
        with pytest.raises(kind, match=text):
            raise explained
        assert Numbers2(2).explain(spark, []) is None
    assert Numbers(2).explain(RuntimeError("something else"), []) is None


class Numbers2(Numbers):
    def describe(self) -> dict[str, Any]:
        return {"type": "Numbers2"}


def test_values_are_cast_and_null_is_a_value(context: Contexts) -> None:
    source = Numbers(3, rows=lambda n: {"n": [None, "7", 8.0][n]})
    assert read(source, source.poll(0, None, context(1))[0]) == [None, 7, 8]


def test_what_is_missing_in_a_source_is_named() -> None:
    class Unfinished(RangeSource):
        schema = "n BIGINT"

    for call in (lambda s: s.latest(0, None), lambda s: s.read_between(0, None, 1), lambda s: s.describe()):
        with pytest.raises(NotImplementedError, match=r"Unfinished\.\w+ is missing"):
            call(Unfinished())
