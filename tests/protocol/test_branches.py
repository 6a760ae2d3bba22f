"""What a pipeline has behind it after restores: against a history in which each checkpoint knows the one it follows."""

from datetime import timedelta
from random import Random

import pytest
from cases import for_each
from records import at, completed, record

from tidegate.protocol.facts.branches import (
    Restore,
    branch_of,
    choose_off_branch,
    choose_overdue_abandoned,
    choose_undone,
    choose_withdrawn_for_good,
    drops_unmatched,
    find_unfinished,
    require_present,
    require_restorable,
)
from tidegate.protocol.facts.errors import (
    CheckpointAbandonedError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    NothingToUndoError,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import CheckpointKind


def restore(number, checkpoint_id, last, previous=None, **more):
    return Restore(number, checkpoint_id, last, previous, at(number), **more)


class Tree:
    """Checkpoints and their parents, said explicitly."""

    def __init__(self, random):
        self.parents, self.restores, self.latest = {}, [], None
        for _ in range(random.randint(1, 30)):
            if self.parents and random.random() < 0.35:
                wanted = random.choice(list(self.parents))
                number = len(self.restores) + 1
                self.restores.append(restore(number, wanted, len(self.parents), self.latest))
                self.latest = wanted
            else:
                self.parents[len(self.parents) + 1] = self.latest
                self.latest = len(self.parents)

    def behind(self, checkpoint_id):
        found = set()
        while checkpoint_id is not None:
            found.add(checkpoint_id)
            checkpoint_id = self.parents[checkpoint_id]
        return found


@for_each("seed", range(200))
def test_a_branch_is_a_checkpoint_and_all_that_it_follows(seed):
    tree = Tree(Random(seed))
    everything = set(tree.parents)
    present = branch_of(None, tree.restores)
    assert {id_ for id_ in everything if id_ in present} == tree.behind(tree.latest)
    assert len(everything) + 1 in present, "what is triggered next follows"
    for checkpoint_id in everything:
        branch = branch_of(checkpoint_id, tree.restores)
        assert {id_ for id_ in everything if id_ in branch} == tree.behind(checkpoint_id)
        assert len(everything) + 1 not in branch
    records = [completed(id_) for id_ in everything]
    assert set(choose_off_branch(records, present)) == everything - tree.behind(tree.latest)


def test_withdrawn_rows_are_kept_for_as_long_as_something_that_can_be_restored_follows_them():
    restores = [restore(1, 2, 5)]  # 3, 4 and 5 are left behind; 6 follows 2
    assert choose_withdrawn_for_good([3, 4, 5], [completed(2), completed(4), completed(6)], restores) == [5]
    assert choose_withdrawn_for_good([3, 4, 5], [completed(6)], restores) == [3, 4, 5]
    assert choose_withdrawn_for_good([1], [], restores) == [], "it is a part of the present"


def test_checkpoints_left_behind_are_kept_for_an_undo_and_savepoints_for_ever():
    left = [completed(3, abandoned_by=1), completed(4, abandoned_by=1, kind=CheckpointKind.SAVEPOINT)]
    left += [completed(9, abandoned_by=2)]
    restores = [restore(1, 2, 5), restore(2, 6, 9)]  # at second 1 and 2
    minute = timedelta(minutes=1)
    assert choose_overdue_abandoned(left, restores, minute, at(61)) == []
    assert choose_overdue_abandoned(left, restores, minute, at(61.5)) == [3]
    assert choose_overdue_abandoned(left, restores, minute, at(100)) == [3, 9]


def test_only_the_newest_restore_is_finished_and_only_until_its_sinks_are_rewound():
    done, open_ = restore(1, 2, 5, rewound_at=at(2)), restore(2, 1, 5)
    assert find_unfinished([]) is None
    assert find_unfinished([done]) is None
    assert find_unfinished([done, open_]) == open_
    assert find_unfinished([open_, done]) is None


def test_each_restore_is_undone_once_the_newest_first():
    first, second = restore(1, 2, 5, 5), restore(2, 1, 6, 6)
    assert choose_undone("p", [first, second]) == second
    undo = restore(3, 6, 6, 1, undoes=2)
    assert choose_undone("p", [first, second, undo]) == first
    with pytest.raises(NothingToUndoError, match="no restore that could be undone"):
        choose_undone("p", [first, second, undo, restore(4, 5, 6, 6, undoes=1)])


def test_what_can_be_restored_has_completed_and_is_kept():
    kept = [completed(2), completed(4)]
    assert require_restorable("p", 4, kept[1], kept) is kept[1]
    left_behind = completed(3, abandoned_by=1)
    assert require_restorable("p", 3, left_behind, kept) is left_behind
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint 7 .* can be restored to: 2, 4"):
        require_restorable("p", 7, None, kept)
    for gone in (completed(1, status=Status.SUBSUMED), completed(1, status=Status.DISCARDED)):
        with pytest.raises(CheckpointNotRetainedError, match=r"newer ones have replaced it.*: 2, 4"):
            require_restorable("p", 1, gone, kept)
    with pytest.raises(CheckpointNotRetainedError, match=r"it is IN_PROGRESS.*It has none"):
        require_restorable("p", 5, record(5, phase=Phase.VALIDATED), [])


def test_a_step_of_a_checkpoint_that_was_left_behind_is_refused():
    require_present(completed(3))
    with pytest.raises(CheckpointAbandonedError, match="restore p --checkpoint 3"):
        require_present(completed(3, abandoned_by=1))


def test_state_that_was_dropped_with_a_restore_is_dropped_by_the_first_checkpoint_after_it():
    dropping = restore(1, 2, 5, allows_non_restored_state=True)
    assert drops_unmatched(completed(2), [dropping])
    assert not drops_unmatched(completed(6), [dropping])
    assert not drops_unmatched(completed(2), [dropping, restore(2, 2, 6)])
    assert not drops_unmatched(None, [dropping])
    assert not drops_unmatched(completed(2), [])
