"""Which checkpoint several tables are read as of."""

import pytest
from records import T0, completed, record

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import (
    CheckpointInDoubtError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import OperatorPlan
from tidegate.protocol.observing.cuts import choose_cut, is_shown

#: Back from 5 to 2, after which 6 came.
RESTORES = [Restore(1, 2, 5, 5, T0)]
PLAN = tuple(OperatorPlan(id_, 1, 8) for id_ in ("op", "mart-sink", "files-sink"))


def chosen(found, wanted=None, restores=(), sinks=()):
    cut = choose_cut("p", wanted, found, restores, sinks)
    return cut.record.checkpoint_id, [id_ for id_ in range(1, 9) if id_ in cut.branch]


@pytest.mark.parametrize(
    ("found", "restores", "branch"),
    [
        (completed(3), [], [1, 2, 3]),
        (completed(3, status=Status.DISCARDED), [], [1, 2, 3]),
        (completed(6), RESTORES, [1, 2, 6]),
        (completed(2), RESTORES, [1, 2]),
        (completed(4, abandoned_by=1), RESTORES, [1, 2, 3, 4]),
    ],
)
def test_rows_are_those_of_the_checkpoints_branch(found, restores, branch):
    assert chosen(found, found.checkpoint_id, restores) == (found.checkpoint_id, branch)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (None, CheckpointNotFoundError),
        (record(3), CheckpointNotRetainedError),
        (completed(3, notified_at=None, operators=PLAN), CheckpointInDoubtError),
        (completed(3, abandoned_by=1, status=Status.SUBSUMED), CheckpointNotRetainedError),
        (completed(3, notified_at=None, operators=PLAN, abandoned_by=1), CheckpointNotRetainedError),
    ],
)
def test_what_no_table_shows_or_keeps_is_refused(found, error):
    with pytest.raises(error, match="Nothing was read"):
        chosen(found, 3, RESTORES)


@pytest.mark.parametrize(
    ("committed", "notified_at", "sinks", "shown"),
    [
        (("mart-sink",), None, {"mart-sink"}, True),
        (("mart-sink",), None, {"mart-sink", "files-sink"}, False),
        (("mart-sink",), None, {"files-sink"}, False),
        (("mart-sink",), None, (), False),
        (("mart-sink", "files-sink"), None, (), True),
        ((), T0, (), True),
        ((), T0, {"files-sink"}, True),
    ],
)
def test_sinks_in_the_commit_show_a_checkpoint_as_soon_as_it_has_completed(committed, notified_at, sinks, shown):
    found = completed(3, operators=PLAN, committed_sinks=committed, notified_at=notified_at)
    assert is_shown(found, sinks) is shown
    if shown:
        assert chosen(found, sinks=sinks) == (3, [1, 2, 3])
