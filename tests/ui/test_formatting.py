"""How figures are written on pages."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.history import CheckpointHistory
from tidegate.ui import formatting


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, "–"), (-1, "–"), (0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_940, "59.9 s"),
        (59_960, "1 min 00 s"),
        (60_000, "1 min 00 s"), (185_000, "3 min 05 s"), (3_599_600, "1 h 00 min"), (7_800_000, "2 h 10 min"),
        (86_400_000, "1 d 0 h"), (442_800_000, "5 d 3 h"),
    ],
)  # fmt: skip
def test_durations(milliseconds, shown):
    assert formatting.duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (-1, "–"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB"),
        (12_345_678, "12.3 MB"), (5 * 10**12, "5.0 TB"), (2 * 10**21, "2,000.0 EB"),
    ],
)  # fmt: skip
def test_sizes(count, shown):
    assert formatting.size(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(-1, "–"), (999, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_199_000, "1 h"), (8.64e7, "1 d"), (9e9, "104 d")],
)
def test_ages(milliseconds, shown):
    assert formatting.age(milliseconds) == shown


def test_numbers_percentages_and_ratios():
    assert [formatting.number(one) for one in (-1, 0, 1234567, 2.5, 1234.5)] == ["–", "0", "1,234,567", "2.5", "1,234"]
    assert [formatting.signed(one) for one in (None, -1.0, -0.25, 12345678.0)] == ["–", "-1", "-0.25", "1.23457e+07"]
    assert [formatting.percent(one) for one in (None, 0, 33.3333, 100)] == ["–", "0 %", "33.3 %", "100 %"]
    assert [formatting.ratio(one) for one in (-1, 1, 3.27)] == ["–", "1.0×", "3.3×"]


def test_what_is_counted_is_named():
    assert [formatting.counted(count, "files") for count in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]


def test_moments_are_in_utc_whatever_they_were_given_in():
    at = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone(timedelta(hours=2)))
    assert (formatting.moment(at), formatting.clock(at)) == ("2026-01-02 01:04:05", "01:04:05.678")
    assert (formatting.moment(None), formatting.clock(None)) == ("–", "–")


def test_between_two_moments():
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert formatting.between(at, at + timedelta(seconds=1.5)) == 1500
    assert formatting.between(at, at - timedelta(seconds=1)) == 0  # of two clocks
    assert formatting.between(None, at) == formatting.between(at, None) == -1


def test_values_are_json_and_texts_are_themselves():
    assert formatting.value({"é": [1, None]}) == '{"é": [1, null]}'
    assert (formatting.value("a"), formatting.value(None), formatting.value(True)) == ("a", "null", "true")
    assert (formatting.shorten("abcd", 4), formatting.shorten("abcde", 4)) == ("abcd", "abc…")


def test_what_is_unknown_is_not_nothing():
    assert formatting.counted(-1, "rows") == "rows not counted"
    assert [formatting.together(counts) for counts in ([], [1, 2], [1, -1])] == [0, 3, -1]


def test_options_are_written_as_people_write_them():
    options = CheckpointConfig(timeout="1 h 30 min", history=CheckpointHistory(9, "3 d"), max_concurrent=1).describe()
    shown = {name: formatting.option(setting, name) for name, setting in options.items()}
    assert (shown["timeout"], shown["undo_within"], shown["min_pause"]) == ("1 h 30 min", "7 d", "0 s")
    assert (shown["history"], shown["stale_after"], shown["max_concurrent"]) == ("checkpoints 9, age 3 d", "None", "1")


def test_every_option_that_is_a_duration_is_known_as_one():
    every = CheckpointConfig(interval="1 min", interval_during_backlog="2 min", stale_after="1 d")
    durations = {each.name for each in fields(every) if isinstance(getattr(every, each.name), timedelta)}
    assert durations | {"age"} == formatting.DURATIONS


def test_objects_are_read_without_braces():
    assert formatting.pairs({"column": "minutes", "min_value": 0}) == "column minutes, min_value 0"
    assert formatting.pairs({"files": ["a", "b"], "at": {"p": 1}, "none": {}}) == "files a b, at (p 1), none none"
    assert (formatting.pairs("as it is"), formatting.pairs(None)) == ("as it is", "null")
