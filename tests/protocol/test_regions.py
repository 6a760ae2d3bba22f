"""Who may act as a region, and which files are whose."""

import pytest
from cases import for_each
from records import at

from tidegate.protocol.continuous.regions import (
    REGION_LEASE,
    SIGN_EVERY,
    DeadRegion,
    LiveRegion,
    NoRegion,
    RegionRecord,
    begun,
    choose_left_behind,
    decide_presence,
    directory_in_use,
    ended,
    is_current,
    last_ended,
    left_since,
    needs_sign,
    require_startable,
    swept,
)
from tidegate.protocol.facts.errors import PipelineFailedError, PipelineStatusError
from tidegate.protocol.facts.paths import shared_directory
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import Deletion

NEVER = RegionRecord()
FIRST = begun(NEVER, at(0))
OVER = ended(FIRST, at(10))
SECOND = begun(FIRST, at(20))


def test_a_region_lives_as_long_as_its_lease():
    assert decide_presence(FIRST, at(0) + REGION_LEASE) == LiveRegion()
    assert decide_presence(FIRST, at(1) + REGION_LEASE) == DeadRegion(seen_at=at(0))
    assert decide_presence(NEVER, at(0)) == decide_presence(OVER, at(0)) == NoRegion()


def test_a_sign_of_life_is_due_well_within_the_lease():
    assert not needs_sign(FIRST, at(0))
    assert needs_sign(FIRST, at(0) + SIGN_EVERY)
    assert SIGN_EVERY * 3 < REGION_LEASE


def test_only_the_newest_attempt_that_was_not_ended_is_current():
    assert is_current(FIRST, 1)
    assert not is_current(SECOND, 1)
    assert not is_current(OVER, 1)
    assert not is_current(NEVER, 0)


@for_each("status", [PipelineStatus.CREATED, PipelineStatus.RUNNING])
def test_a_pipeline_that_takes_checkpoints_may_have_a_region(status):
    require_startable(PipelineRecord("p", status))


def test_another_one_says_how_to_go_on_where_it_can():
    with pytest.raises(PipelineStatusError, match=r"is SUSPENDED \(since 2026-01-01 12:00:00 UTC\).*tidegate resume p"):
        require_startable(PipelineRecord("p", PipelineStatus.SUSPENDED, at(0)))
    with pytest.raises(PipelineStatusError, match=r"is CANCELLED, .*Nothing was changed\.$"):
        require_startable(PipelineRecord("p", PipelineStatus.CANCELLED))
    with pytest.raises(PipelineFailedError, match=r"^It broke\. To continue, run `tidegate resume p`"):
        require_startable(PipelineRecord("p", PipelineStatus.FAILED, at(0), "It broke."))


def test_only_a_region_that_runs_has_a_directory_in_use():
    assert directory_in_use("p", SECOND) == shared_directory("p", 2) == "p/shared/2"
    assert directory_in_use("p", OVER) is None
    assert directory_in_use("p", NEVER) is None


def test_what_was_left_is_looked_for_since_the_newest_ended_attempt_ended():
    assert [last_ended(region) for region in (NEVER, FIRST, OVER, SECOND)] == [0, 0, 1, 1]
    assert [left_since(region) for region in (NEVER, FIRST, OVER, SECOND)] == [None, None, at(10), at(20)]
    assert left_since(swept(OVER, 1)) is None
    assert left_since(begun(swept(OVER, 1), at(30))) is None
    assert left_since(begun(begun(swept(OVER, 1), at(30)), at(40))) == at(40)


def test_what_was_swept_stays_so():
    assert swept(swept(SECOND, 2), 1).swept == 2


def test_files_are_distinguished_by_the_attempt_they_lie_below():
    paths = ["p/shared/1/a", "p/shared/2/b", "p/shared/10/c", "p/shared/x", "p/shared/1", "p/chk-1/d", "p/shared/0/e"]
    assert choose_left_behind("p", paths, 1) == [Deletion("storage", path) for path in ("p/shared/1/a", "p/shared/1")]
    assert len(choose_left_behind("p", paths, 10)) == 4
    assert choose_left_behind("p", paths, 0) == []
