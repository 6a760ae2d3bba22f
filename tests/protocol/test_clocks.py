"""What a time that lies in the future means, by the kind of time."""

from dataclasses import replace
from datetime import timedelta

from cases import for_each
from hypothesis import given
from hypothesis import strategies as st
from records import at, completed, record

from tidegate.protocol.cleaning.retention import SWEEP_EVERY, RetentionRule, choose_subsumed, is_due, is_settled
from tidegate.protocol.cleaning.rollup import HistoryRule, choose_for_rollup
from tidegate.protocol.continuous.regions import REGION_LEASE, RegionRecord, is_signed_ahead
from tidegate.protocol.continuous.regions import needs_sign as region_needs_sign
from tidegate.protocol.facts.branches import Restore, choose_overdue_abandoned
from tidegate.protocol.facts.clocks import is_ahead, is_over, time_left
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import handed_over
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRequest, Decision
from tidegate.protocol.observing.events import Event, EventKind, Undelivered, choose_next, next_try
from tidegate.protocol.observing.staleness import AsBefore, BecameFresh, BecameStale, decide_staleness
from tidegate.protocol.recovery.imports import IMPORT_LEASE
from tidegate.protocol.recovery.imports import choose_ahead as choose_imports_ahead
from tidegate.protocol.steps.admission import (
    LEASE,
    DropUntil,
    Start,
    choose_ahead,
    choose_forgotten,
    choose_misdated,
    choose_request,
    choose_to_repeat,
)
from tidegate.protocol.steps.committing import SIGN_EVERY, needs_sign

HOUR = timedelta(hours=1)
DAY = 86_400
PERIODIC = CheckpointRequest("r", CheckpointKind.CHECKPOINT, True, False, at(0), at(0))
TIMES = st.integers(-(10**6), 10**6).map(at)
WAITS = st.integers(0, 10**6).map(lambda n: timedelta(seconds=n))


@for_each(
    ("began", "now", "left"),
    [(0, 0, 10), (0, 4, 6), (0, 10, 0), (0, 11, 0), (3, 0, 13), (9.9, 0, 19.9), (10, 0, 0), (3600, 0, 0)],
)
def test_a_wait_of_ten_seconds(began, now, left):
    assert time_left(at(began), timedelta(seconds=10), at(now)) == timedelta(seconds=left)
    assert is_over(at(began), timedelta(seconds=10), at(now)) == (left == 0)


@given(TIMES, WAITS, TIMES)
def test_no_wait_takes_longer_than_twice_its_length(began, lasts, now):
    left = time_left(began, lasts, now)
    assert timedelta(0) <= left <= 2 * lasts
    assert began > now or left == max(began + lasts - now, timedelta(0))


@for_each("min_pause", [0, 10, 3000])
def test_a_completion_in_the_future_begins_no_pause(min_pause):
    latest = completed(completed_at=at(3600))
    decision = choose_request(
        [PERIODIC],
        in_progress=[],
        latest_completed=latest,
        max_concurrent=1,
        min_pause=timedelta(seconds=min_pause),
        now=at(0),
    )
    assert decision == Start(PERIODIC)


def test_clocks_that_differ_a_little_do_not_shorten_the_pause():
    facts = {"in_progress": [], "max_concurrent": 1, "min_pause": timedelta(seconds=10), "now": at(0)}
    decision = choose_request([PERIODIC], latest_completed=completed(completed_at=at(3)), **facts)
    assert isinstance(decision, DropUntil)
    assert decision.again_in == timedelta(seconds=13)


def test_a_request_from_the_future_waits_from_now_on():
    ahead = replace(PERIODIC, asked_at=at(DAY), seen_at=at(DAY))
    later = replace(PERIODIC, asked_at=at(-50), seen_at=at(DAY))
    near = replace(PERIODIC, seen_at=at(0) + LEASE)
    assert choose_ahead([ahead, near, PERIODIC, later], at(0)) == [
        replace(ahead, asked_at=at(0), seen_at=at(0)),
        replace(later, seen_at=at(0)),
    ]
    assert choose_forgotten(choose_ahead([ahead], at(0)), RegionRecord(), at(1) + LEASE) != []


def test_what_was_last_repeated_in_the_future_is_repeated():
    mine = replace(PERIODIC, request_id=handed_over("r"), asked_at=at(DAY), seen_at=at(DAY))
    assert choose_to_repeat([mine], at(0), is_busy=True, unaligned=False) == [mine]


@for_each("ahead", [DAY, 3600, 120])
def test_a_sign_of_life_in_the_future_is_corrected_and_the_next_one_due(ahead):
    region = RegionRecord(1, at(0), at(ahead))
    assert is_signed_ahead(region, at(0))
    assert region_needs_sign(region, at(0))
    assert needs_sign(at(ahead), at(0))
    assert choose_imports_ahead({7: at(ahead), 8: at(0)}, at(0) - IMPORT_LEASE) == [7]


def test_a_sign_of_life_of_a_clock_that_is_a_little_ahead_stands():
    region = RegionRecord(1, at(0), at(0) + REGION_LEASE)
    assert not is_signed_ahead(region, at(0))
    assert not is_signed_ahead(RegionRecord(), at(0))
    assert not is_ahead(at(5), REGION_LEASE, at(0))
    assert not needs_sign(at(1), at(0)), f"every {SIGN_EVERY} is enough"


TEN = timedelta(minutes=10)


@for_each(("ahead", "corrected"), [(DAY, True), (601, True), (600, False), (5, False), (-5, False)])
def test_a_deadline_that_only_a_clock_ahead_can_have_set_is_corrected_to_a_timeout_from_now(ahead, corrected):
    going = record(triggered_at=at(ahead), deadline=at(ahead) + TEN)
    found = choose_misdated([going], HOUR, at(0))  # the timeout that it was triggered with counts
    assert found == ([replace(going, deadline=at(0) + TEN)] if corrected else [])
    assert choose_misdated(found, TEN, at(0)) == []


def test_a_deadline_that_was_corrected_by_another_wrong_clock_is_corrected_again():
    going = record(triggered_at=at(2 * DAY), deadline=at(DAY) + TEN)
    assert choose_misdated([going], HOUR, at(0)) == [replace(going, deadline=at(0) + HOUR)]
    assert choose_misdated([going], HOUR, at(DAY)) == []


def test_what_a_person_decides_about_is_not_corrected():
    held = record(triggered_at=at(DAY), deadline=at(DAY) + TEN, phase=Phase.HELD)
    approved = replace(held, phase=Phase.VALIDATED, decision=Decision.APPROVED)
    assert choose_misdated([held, approved], TEN, at(0)) == []


def test_an_event_is_tried_again_no_later_than_after_twice_its_pause():
    event = Event("p", 1, EventKind.CHECKPOINT_FAILED, at(0), "m")
    due = next_try(3, at(DAY))
    assert choose_next([Undelivered(event, 3, due)], at(0)) is not None
    assert choose_next([Undelivered(event, 3, next_try(3, at(5)))], at(0)) is None


def test_a_pipeline_whose_latest_completion_is_in_the_future_is_reported():
    running = PipelineRecord("p", PipelineStatus.RUNNING, since=at(-DAY))
    latest = completed(completed_at=at(DAY))
    assert isinstance(decide_staleness(running, latest, HOUR, at(0)), BecameStale)
    begun_later = replace(running, since=at(-60))
    assert decide_staleness(begun_later, latest, HOUR, at(0)) == AsBefore(at(-60) + HOUR)
    assert decide_staleness(running, completed(completed_at=at(9)), HOUR, at(0)) == AsBefore(at(9) + HOUR)


def test_a_pipeline_that_became_stale_in_the_future_is_fresh_with_its_next_checkpoint():
    stale = PipelineRecord("p", PipelineStatus.RUNNING, since=at(0), stale_since=at(DAY))
    assert decide_staleness(stale, completed(completed_at=at(0)), HOUR, at(7200)) == AsBefore(None)
    found = decide_staleness(stale, completed(2, completed_at=at(7000)), HOUR, at(7200))
    assert isinstance(found, BecameFresh)
    assert "checkpoint 2" in found.message


def test_nothing_is_deleted_too_early():
    young = completed(1, completed_at=at(DAY))
    rule = RetentionRule(1, HOUR, HOUR)
    assert choose_subsumed([young, completed(2, completed_at=at(0))], rule, at(1)) == []
    assert not is_settled(at(DAY), at(0))
    gone = completed(1, abandoned_by=1)
    assert choose_overdue_abandoned([gone], [Restore(1, 1, 2, 2, at(DAY))], HOUR, at(0)) == []
    failed = record(1, status=Status.FAILED, failed_at=at(DAY))
    assert choose_for_rollup([failed], 9, HistoryRule(None, HOUR), at(0)) == []


def test_a_directory_that_was_listed_in_the_future_is_listed_again():
    assert is_due(at(0), at(3600), at(0))
    assert not is_due(at(0), at(1), at(0) + SWEEP_EVERY / 2)
