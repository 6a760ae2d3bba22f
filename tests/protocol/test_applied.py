"""Which checkpoints a table has, in whatever order they were committed."""

from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.steps.applied import Applied


def test_ids_that_were_passed_over_are_not_there_until_they_are_committed() -> None:
    some = Applied().with_commit(2).with_commit(5)
    assert [id_ for id_ in range(8) if some.has(id_)] == [0, 2, 5]
    assert [id_ for id_ in range(8) if some.with_commit(4).has(id_)] == [0, 2, 4, 5]
    assert some.with_commit(2) == some


def test_a_restore_to_a_checkpoint_does_not_commit_it() -> None:
    some = Applied().with_commit(2)
    assert some.without(2) == some
    assert not some.without(4).has(4)
    assert some.without(4).with_commit(4).has(4)


def test_the_newest_of_a_branch_is_looked_for_in_its_spans() -> None:
    some = Applied().with_commit(2).with_commit(5).with_commit(9)
    assert some.newest_in(Branch(((1, 9),)), 9) == 5
    assert some.newest_in(Branch(((7, 8), (1, 3))), 8) == 2
    assert some.newest_in(Branch(((7, None), (1, 3))), 30) == 9
    assert some.newest_in(Branch(((3, 4),)), 4) == 0


def test_old_ranges_are_joined() -> None:
    some = Applied()
    for id_ in range(2, 2100, 2):
        some = some.with_commit(id_)
    assert len(some.passed) == 500
    assert some.has(2098)
    assert not some.has(2)
