"""When a pipeline is stale, and when it is so no more."""

from datetime import timedelta

from cases import for_each
from records import at, record

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus, moved, restored
from tidegate.protocol.observing.staleness import EXPECTED, AsBefore, BecameFresh, BecameStale, decide_staleness

AFTER = timedelta(minutes=30)


def pipeline(status=PipelineStatus.RUNNING, since=0, stale=None):
    return PipelineRecord("p", status, at(since), None, 0, None if stale is None else at(stale))


def completed(seconds):
    return record(4).moved(status=Status.COMPLETED, completed_at=at(seconds))


def decide(now, latest=None, after=AFTER, **known):
    return decide_staleness(pipeline(**known), latest, after, at(now))


def test_it_is_stale_once_nothing_completed_for_longer_and_not_before():
    assert decide(1899, completed(100)) == AsBefore(at(1900))
    assert isinstance(decide(1900, completed(100)), BecameStale)


def test_a_pipeline_that_never_completed_anything_counts_from_when_it_began():
    assert decide(1799) == AsBefore(at(1800))
    assert isinstance(decide(1800), BecameStale)


def test_a_pipeline_that_was_resumed_has_all_its_time():
    assert decide(3000, completed(100), since=2900) == AsBefore(at(4700))


def test_one_that_failed_counts_from_its_latest_success():
    assert isinstance(decide(1900, completed(100), status=PipelineStatus.FAILED, since=1890), BecameStale)


@for_each("status", sorted(set(PipelineStatus) - EXPECTED))
def test_a_pipeline_that_nobody_runs_is_not_stale(status):
    assert decide(10**6, completed(0), status=status) == AsBefore(None)
    ended = decide(10**6, completed(0), status=status, stale=5000)
    assert isinstance(ended, BecameFresh)
    assert f"p is {status}" in ended.message


def test_without_the_option_none_is():
    assert decide(10**6, completed(0), after=None) == AsBefore(None)
    assert isinstance(decide(10**6, completed(0), after=None, stale=5000), BecameFresh)


def test_it_is_said_once_and_again_when_something_completes():
    assert decide(10**6, completed(100), stale=1900) == AsBefore(None)
    fresh = decide(10**6, completed(2000), stale=1900)
    assert isinstance(fresh, BecameFresh)
    assert "completes checkpoints again: checkpoint 4" in fresh.message


def test_to_be_resumed_is_not_to_complete_something():
    assert decide(2000, completed(100), since=1950, stale=1900) == AsBefore(None)


def test_what_to_do_is_said():
    stale = decide(1900, completed(100))
    assert stale.message.startswith(
        "Pipeline p has completed no checkpoint for longer than 30 min. The latest is checkpoint 4, completed at "
    )
    assert "None has completed yet" in decide(1900).message


def test_a_change_of_status_does_not_forget_it():
    known = pipeline(stale=5)
    assert moved(known, PipelineStatus.SUSPENDED, at(9), None, None).stale_since == at(5)
    assert restored(known, at(9), "back", 0).stale_since == at(5)
