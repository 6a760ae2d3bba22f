"""How long a version of a table of current rows stays readable after it was replaced. No Spark."""

import itertools
import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commits import Attempt, commit
from parquet_sinks import Died, Mortal, shown, stage, tree, visible

from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import PipelineDefinitionError, SupersededAttemptError
from tidegate.sinks.parquet import ParquetSink
from tidegate.sinks.versions import choose_outdated, last_replaced

MINUTE = 60 * 10**9


@pytest.fixture
def latest() -> ParquetSink:
    return ParquetSink("tables/state", mode="latest", readable_for="1 min")


def versions(sink: ParquetSink) -> list[str]:
    return sorted(os.listdir(Path(sink.root, "_versions")))


def replace(sink: ParquetSink, *ids: int) -> None:
    for id_ in ids:
        commit(sink, id_, [stage(sink, id_, id_)])


def age(sink: ParquetSink, id_: int, seconds: float) -> None:
    """As if the version had been replaced so long ago, or, below zero, as if the clock had been set back since."""
    at = time.time() - seconds
    os.utime(Path(sink.root, "_versions", f"chk-{id_}"), (at, at))


@pytest.mark.parametrize(
    ("replaced_at", "gone", "undated"),
    [
        ({}, [], []),
        ({1: 0}, [], []),  # the last one stays, however old
        ({1: 0, 2: 1}, [1], []),
        ({1: 9 * MINUTE, 2: 10 * MINUTE}, [1], []),
        ({1: 9 * MINUTE + 1000, 2: 10 * MINUTE}, [], []),
        ({1: 5 * MINUTE, 2: 3 * MINUTE}, [2], []),  # a rewind showed 1 again
        ({1: 99 * MINUTE, 2: 10 * MINUTE}, [], [1]),
        ({1: 0, 2: 98 * MINUTE, 3: 99 * MINUTE}, [1], [2, 3]),
    ],
)
def test_what_is_outdated_after_ten_minutes(replaced_at, gone, undated):
    outdated = choose_outdated(replaced_at, last_replaced(replaced_at), 10 * MINUTE, timedelta(minutes=1))
    assert (outdated.gone, outdated.undated) == (gone, undated)


def test_a_reader_that_resolved_the_link_finishes_however_often_the_table_is_replaced_meanwhile(latest):
    replace(latest, 1)
    opened = os.path.realpath(Path(latest.root, "current"))
    assert opened == latest.table()
    replace(latest, *range(2, 20))
    assert (shown(opened), visible(latest)) == ([1], [19])


def test_a_version_goes_with_the_first_commit_after_its_time_counted_from_when_it_was_replaced(latest):
    replace(latest, 1, 2)
    age(latest, 2, 3600)  # shown for an hour
    replace(latest, 3)
    assert versions(latest) == ["chk-1", "chk-2", "chk-3"]
    age(latest, 1, 61)
    replace(latest, 4)
    assert versions(latest) == ["chk-2", "chk-3", "chk-4"]
    age(latest, 2, 59)
    replace(latest, 5)
    assert versions(latest) == ["chk-2", "chk-3", "chk-4", "chk-5"]


def test_the_version_before_stays_until_the_next_one_however_late_that_comes(latest):
    replace(latest, 1, 2)
    age(latest, 1, 7200)
    commit(latest, 2, [stage(latest, 2, 2)])
    assert versions(latest) == ["chk-1", "chk-2"]
    age(latest, 1, 61)
    replace(latest, 3)
    assert versions(latest) == ["chk-2", "chk-3"]


def test_also_a_checkpoint_to_which_nothing_came_removes_what_is_outdated(latest):
    replace(latest, 1, 2)
    kept = [stage(latest, 3, 3)]
    commit(latest, 3, kept)
    age(latest, 1, 61)
    commit(latest, 4, kept)
    assert versions(latest) == ["chk-2", "chk-3"]


def test_a_clock_that_was_set_back_keeps_a_version_for_no_longer_than_its_time_from_then_on(latest):
    replace(latest, 1, 2)
    age(latest, 1, -86_400)
    replace(latest, 3)
    assert abs(Path(latest.root, "_versions/chk-1").stat().st_mtime - time.time()) < 60
    age(latest, 1, 61)
    replace(latest, 4)
    assert versions(latest) == ["chk-2", "chk-3", "chk-4"]


def test_a_version_that_a_restore_left_is_readable_as_long_and_the_one_it_went_back_to_is_not_touched(latest):
    handles = {id_: [stage(latest, id_, id_)] for id_ in (1, 2, 3)}
    for id_, staged in handles.items():
        commit(latest, id_, staged)
    age(latest, 2, 61)
    opened = latest.table()
    latest.rewind(1, Branch(((1, 1),)), handles[1], Attempt())
    replace(latest, 4)
    assert (shown(opened), visible(latest)) == ([3], [4])
    assert versions(latest) == ["chk-1", "chk-3", "chk-4"]
    latest.rewind(1, Branch(((1, 1),)), [], Attempt())  # older than the sink, which shows nothing
    age(latest, 4, 0)
    assert versions(latest) == ["chk-1", "chk-3", "chk-4"]


def files(sink: ParquetSink) -> list[str]:
    return sink.outdated(datetime.now(UTC))


@pytest.mark.parametrize("base", ["", "_merged"])
def test_where_no_commit_comes_a_cleaning_removes_what_is_outdated(base):
    sink = ParquetSink("t", "append", "1 min", merge=True) if base else ParquetSink("t", "latest", "1 min")
    replace(sink, 1, 2, 3, 4, 5)
    versions, before = Path(sink.root, base, "_versions"), tree(sink)
    assert files(sink) == []
    for id_, minutes in {1: 2, 2: 4, 3: 3, 4: 2}.items():
        at = time.time() - 60 * minutes
        os.utime(versions / f"chk-{id_}", (at, at))
    os.utime(versions / "chk-4", (time.time() + 86_400,) * 2)
    gone = {str(path.relative_to(sink.root)) for id_ in (1, 2, 3) for path in (versions / f"chk-{id_}").iterdir()}
    assert set(files(sink)) == gone
    assert tree(sink) == before
    sink.remove_outdated(Attempt())
    assert sorted(path.name for path in versions.iterdir()) == ["chk-4", "chk-5"]
    assert abs((versions / "chk-4").stat().st_mtime - time.time()) < 60  # a clock was set back
    assert (visible(sink), shown(sink.table())) == (([1, 2, 3, 4, 5],) * 2 if base else ([5], [5]))
    assert files(sink) == []


def test_a_cleaning_leaves_what_a_commit_has_prepared_and_the_version_before(latest):
    replace(latest, 1, 2)
    Path(latest.root, "_versions", "chk-3").mkdir()
    for id_ in (1, 3):
        age(latest, id_, 3600)
    latest.remove_outdated(Attempt())
    assert versions(latest) == ["chk-1", "chk-2", "chk-3"]


def test_a_cleaning_that_was_overtaken_removes_nothing(latest):
    replace(latest, 1, 2, 3)
    age(latest, 1, 3600)
    slow = Attempt()
    Attempt()
    with pytest.raises(SupersededAttemptError):
        latest.remove_outdated(slow)
    assert versions(latest) == ["chk-1", "chk-2", "chk-3"]


def test_an_unfinished_mark_is_removed_once_its_process_must_be_gone(latest):
    replace(latest, 1)
    left = Path(latest.root, f"_owner.{'0a' * 16}.tmp")
    other = Path(latest.root, "_owner.mine.tmp")
    for path in (left, other):
        path.touch()
        os.utime(path, (time.time() - 3540,) * 2)
    latest.remove_outdated(Attempt())
    assert left.exists()
    os.utime(left, (time.time() - 3660,) * 2)
    os.utime(other, (time.time() - 3660,) * 2)
    assert files(latest) == [left.name]
    latest.remove_outdated(Attempt())
    assert (left.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_dies_the_time_counts_from_no_earlier_than_when_the_version_was_replaced(after, monkeypatch):
    removed = False
    for at in itertools.count(1):
        sink = ParquetSink(f"died-{at}", mode="latest", readable_for="1 min")
        replace(sink, 1, 2)
        age(sink, 1, 61)
        age(sink, 2, 3600)
        third, opened, died = [stage(sink, 3, 3)], sink.table(), False
        with monkeypatch.context() as patch:
            Mortal(patch, at, after)
            with suppress(Died):
                died = True
                commit(sink, 3, third)
                died = False
        commit(sink, 3, third)
        removed = removed or "chk-1" not in versions(sink)
        replace(sink, 4, 5)
        assert shown(opened) == [2]
        assert versions(sink) == ["chk-2", "chk-3", "chk-4", "chk-5"]
        if not died:
            break
    assert at > 12
    assert removed


def test_how_long_is_a_duration_and_changes_nothing_of_the_rows():
    with pytest.raises(PipelineDefinitionError, match=r"ParquetSink\('t'\): readable_for: 'soon' is not a duration"):
        ParquetSink("t", mode="latest", readable_for="soon")
    long = ParquetSink("t", mode="latest", readable_for=timedelta(hours=2))
    assert long.describe() == ParquetSink("t", mode="latest").describe()
