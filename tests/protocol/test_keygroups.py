"""Key groups: every hash has one owner, ranges are contiguous and cover everything, at every parallelism."""

from itertools import pairwise

from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.facts.keygroups import (
    KeyGroupRange,
    default_max_parallelism,
    hashes_of,
    key_group_of,
    key_groups_of,
    subtask_of,
)

HASHES = st.integers(0, 2**64 - 1)


@st.composite
def parallelisms(draw):
    max_parallelism = draw(st.integers(1, 32768))
    return draw(st.integers(1, max_parallelism)), max_parallelism


@given(HASHES, parallelisms())
def test_a_hash_lies_in_the_ranges_of_its_key_group_and_subtask(key_hash, sizes):
    parallelism, max_parallelism = sizes
    group = key_group_of(key_hash, max_parallelism)
    owner = subtask_of(group, parallelism, max_parallelism)
    groups = key_groups_of(owner, parallelism, max_parallelism)
    assert groups.first <= group <= groups.last
    low, high = hashes_of(groups, max_parallelism)
    assert low <= key_hash <= high


@given(parallelisms())
def test_the_subtasks_ranges_follow_one_another_without_gap(sizes):
    parallelism, max_parallelism = sizes
    parallelism = min(parallelism, 200)
    ranges = [key_groups_of(index, parallelism, max_parallelism) for index in range(parallelism)]
    assert ranges[0].first == 0
    assert ranges[-1].last == max_parallelism - 1
    assert all(after.first == before.last + 1 for before, after in pairwise(ranges))
    hashes = [hashes_of(groups, max_parallelism) for groups in ranges]
    assert hashes[0][0] == 0
    assert hashes[-1][1] == 2**64 - 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(hashes))


@given(HASHES, HASHES, st.integers(1, 32768))
def test_key_groups_grow_with_the_hash(one, other, max_parallelism):
    low, high = sorted((one, other))
    assert key_group_of(low, max_parallelism) <= key_group_of(high, max_parallelism)


def test_ranges_overlap_when_they_share_a_group():
    assert KeyGroupRange(0, 4).overlaps(KeyGroupRange(4, 8))
    assert not KeyGroupRange(0, 4).overlaps(KeyGroupRange(5, 8))


@for_each(
    ("parallelism", "groups"),
    [(1, 128), (2, 128), (85, 128), (86, 256), (128, 256), (171, 256), (172, 512), (10_000, 16384), (32768, 32768)],
)
def test_the_default_leaves_room_to_grow_by_half(parallelism, groups):
    assert default_max_parallelism(parallelism) == groups
