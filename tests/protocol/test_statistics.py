"""Counts, summaries and percentiles (protocol.md section 19)."""

import statistics

import pytest
from cases import for_each
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.observing.statistics import (
    PERCENTILE_WINDOW,
    Counts,
    Summary,
    count_checkpoints,
    percentile,
    summary_of,
)


def test_what_was_subsumed_or_discarded_has_completed():
    by_status = {Status.IN_PROGRESS: 1, Status.COMPLETED: 2, Status.SUBSUMED: 3, Status.DISCARDED: 4, Status.FAILED: 5}
    assert count_checkpoints(by_status, 6) == Counts(restored=6, total=15, in_progress=1, completed=9, failed=5)
    assert count_checkpoints({}) == Counts(0, 0, 0, 0, 0)


def test_one_checkpoint_is_its_own_summary():
    assert summary_of(7, 7, 7, [7]) == Summary(7, 7, 7, 7, 7, 7, 7, 7)


@for_each(
    ("values", "percent", "expected"),
    [([1, 2, 3, 4], 50, 2.5), ([1, 2, 3, 4], 25, 1.25), ([1, 2], 99, 2), ([1, 9], 1, 1)],
)
def test_percentiles_are_interpolated_between_neighbours(values, percent, expected):
    assert percentile(values, percent) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no mistake
@given(st.lists(st.integers(0, 10**6), min_size=99, max_size=300))
def test_percentiles_are_those_of_the_standard_library(values):
    expected = statistics.quantiles(values, n=100, method="exclusive")
    found = [percentile(sorted(values), percent) for percent in range(1, 100)]
    assert found == pytest.approx(expected)


def test_percentiles_are_of_the_newest_and_extremes_of_all():
    summary = summary_of(5, 1_000_000, 6.0, [5] * PERCENTILE_WINDOW + [1_000_000])
    assert (summary.p999, summary.max, summary.min, summary.avg) == (5, 1_000_000, 5, 6.0)
