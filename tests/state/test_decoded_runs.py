"""What stays of runs in memory: within a bound in bytes, those that were used last."""

import pyarrow as pa

from tidegate.state.decoded_runs import DecodedRuns

RUN = [pa.RecordBatch.from_pydict({"value": pa.array([1, 2, 3], pa.int64())})]  # 24 bytes


def key(name: str) -> tuple[str, str, str]:
    return "storage", f"{name}.parquet", "checksum"


def kept(runs: DecodedRuns) -> list[str]:
    return [name for name in "abcd" if runs.find(key(name)) is not None]


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    runs = DecodedRuns(each=24, most=48)
    runs.keep(key("a"), RUN)
    runs.keep(key("b"), RUN)
    assert runs.find(key("a")) is RUN
    runs.keep(key("c"), RUN)
    assert kept(runs) == ["a", "c"]


def test_a_run_that_is_kept_twice_takes_its_room_once() -> None:
    runs = DecodedRuns(each=24, most=48)
    for name in ("a", "a", "a", "b"):
        runs.keep(key(name), RUN)
    assert kept(runs) == ["a", "b"]


def test_a_larger_run_is_not_kept_and_displaces_nothing() -> None:
    runs = DecodedRuns(each=24, most=48)
    runs.keep(key("a"), RUN)
    runs.keep(key("b"), [*RUN, *RUN])
    assert kept(runs) == ["a"]


def test_room_that_was_cleared_can_be_taken_again() -> None:
    runs = DecodedRuns(each=24, most=24)
    runs.keep(key("a"), RUN)
    runs.clear()
    runs.keep(key("b"), RUN)
    assert kept(runs) == ["b"]


def test_another_file_of_the_same_name_is_another_run() -> None:
    runs = DecodedRuns(each=24, most=48)
    runs.keep(key("a"), RUN)
    assert runs.find(("storage", "a.parquet", "other")) is None
