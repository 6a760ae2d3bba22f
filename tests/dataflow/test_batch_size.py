"""How much an operator takes at a time, where micro-batches take so long and so much more a byte."""

import pytest
from cases import for_each

from tidegate.dataflow.batch_size import TARGET, BatchSize

MOST = 64 << 20
MEGABYTE = 1e6


def after_backlog(size: BatchSize, each: float, per_megabyte: float, batches: int = 20) -> float:
    """Seconds of the last of so many full micro-batches."""
    took = 0.0
    for _ in range(batches):
        took = each + per_megabyte * size.bytes / MEGABYTE
        size.took(size.bytes, took)
    return took


@for_each("per_megabyte", [0.01, 0.05, 0.3])
def test_in_a_backlog_a_micro_batch_comes_to_take_the_target(per_megabyte: float) -> None:
    size = BatchSize(MOST)
    assert after_backlog(size, 0.1, per_megabyte) == pytest.approx(TARGET, rel=0.35)
    assert size.bytes <= MOST


def test_it_grows_up_to_the_most_and_no_further() -> None:
    size = BatchSize(MOST)
    after_backlog(size, 0.1, 0.0001)
    assert size.bytes == MOST


@for_each("most", [1, 5, 1 << 10])
def test_what_is_small_by_choice_stays_small(most: int) -> None:
    size = BatchSize(most)
    assert size.bytes == most
    for seconds in (0.0, 0.1, 20.0):
        size.took(most, seconds)
        assert size.bytes == most


def test_where_every_micro_batch_takes_long_large_ones_make_up_for_it() -> None:
    """On a cluster that is slow to start jobs, small micro-batches would be nothing but starts."""
    size = BatchSize(MOST)
    took = after_backlog(size, 2.0, 0.1)
    assert took > 2.5
    assert size.bytes > 8 * MEGABYTE


def test_little_input_changes_nothing_however_often_it_comes() -> None:
    size = BatchSize(MOST)
    after_backlog(size, 0.1, 0.05)
    before = size.bytes
    for _ in range(100):
        size.took(10_000, 0.11)
    assert size.bytes == before


def test_one_slow_micro_batch_costs_half_and_it_recovers() -> None:
    size = BatchSize(MOST)
    after_backlog(size, 0.1, 0.05)
    before = size.bytes
    size.took(size.bytes, 4.0)
    assert size.bytes == before // 2
    assert after_backlog(size, 0.1, 0.05) == pytest.approx(TARGET, rel=0.35)
