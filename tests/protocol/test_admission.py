"""protocol.md section 3: the order of requests, who is dropped or evicted, and what may start."""

import itertools
from dataclasses import replace
from datetime import timedelta

from cases import for_each
from records import at, completed, record

from tidegate.protocol.continuous.regions import RegionRecord, ended
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.names import handed_over, request_of_region, requests_of_run
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRequest
from tidegate.protocol.steps.admission import (
    CAPACITY,
    LEASE,
    DropUntil,
    Start,
    Wait,
    choose_abandoned,
    choose_forgotten,
    choose_overdue,
    choose_request,
    choose_waiting,
    decide_place,
    must_clean_first,
    precedence,
    takes_turn,
)

CHECKPOINT, SAVEPOINT = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT


def request(name="r", kind=CHECKPOINT, periodic=True, forced=False, asked=0.0, **changes):
    return CheckpointRequest(name, kind, periodic, forced, at(asked), at(100), **changes)


def choose(*waiting, **changes):
    facts = {
        "in_progress": [],
        "latest_completed": None,
        "max_concurrent": 1,
        "min_pause": timedelta(0),
        "now": at(100),
    }
    return choose_request(waiting, **(facts | changes))


IN_ORDER = [
    request("forced savepoint", SAVEPOINT, periodic=False, forced=True, asked=9),
    request("manual savepoint", SAVEPOINT, periodic=False, asked=8),
    request("periodic savepoint", SAVEPOINT, asked=7),
    request("forced", forced=True, periodic=False, asked=6),
    request("older manual", periodic=False, asked=4),
    request("newer manual", periodic=False, asked=5),
    request("older periodic", asked=2),
    request("newer periodic", asked=3),
    request("newer periodic too", asked=3),
]


@for_each(("better", "worse"), list(itertools.combinations(IN_ORDER, 2)))
def test_savepoints_then_forced_then_manual_then_older_ones_come_first(better, worse):
    assert choose_waiting([worse, better], at(100)) == [better, worse]
    assert choose(worse, better) == Start(better)


def test_the_first_request_starts():
    assert choose(request()) == Start(request())


def test_everything_waits_while_as_many_checkpoints_are_in_progress_as_may_be():
    busy = record(4, request_id="scheduled-1")
    for one in (request(), request(periodic=False), request(kind=SAVEPOINT, periodic=False)):
        decision = choose(one, in_progress=[busy])
        assert isinstance(decision, Wait)
        assert "Checkpoint 4 of pipeline p, requested by scheduled-1" in decision.message
        assert "Nothing was changed" in decision.message


def test_only_a_forced_request_at_the_head_starts_next_to_others():
    busy, forced = [record(4)], request("f", SAVEPOINT, periodic=False, forced=True)
    assert choose(request(), forced, in_progress=busy) == Start(forced)
    behind = request("behind", periodic=False, forced=True)
    assert isinstance(choose(behind, request("head", SAVEPOINT), in_progress=busy), Wait)


@for_each(
    ("now", "starts"),
    [(3, False), (12.999, False), (13, True), (14, True)],
    ids=["at once", "before", "exactly", "after"],
)
def test_a_periodic_request_is_dropped_during_the_pause_since_the_last_success(now, starts):
    pause = {"latest_completed": completed(1, completed_at=at(3)), "min_pause": timedelta(seconds=10)}
    decision = choose(request(), **pause, now=at(now))
    assert isinstance(decision, Start if starts else DropUntil)
    if not starts:
        assert decision.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
        assert decision.again_in == timedelta(seconds=13 - now)


@for_each("exempt", [{"periodic": False}, {"kind": SAVEPOINT, "periodic": False}, {"forced": True}])
def test_what_nobody_scheduled_ignores_the_pause(exempt):
    one = request(**exempt)
    assert choose(one, latest_completed=completed(1), min_pause=timedelta(hours=1), now=at(4)) == Start(one)


def test_a_periodic_request_that_waits_for_another_checkpoint_is_not_dropped_for_the_pause():
    pause = {"latest_completed": completed(1, completed_at=at(99)), "min_pause": timedelta(hours=1)}
    assert isinstance(choose(request(), in_progress=[record(2)], **pause), Wait)


def full(**changes):
    return [request(f"r{number:04}", asked=number, **changes) for number in range(CAPACITY)]


def test_there_is_room_for_a_thousand():
    assert decide_place(full()[1:], request("new")) is None


def test_a_full_queue_of_manual_requests_takes_nothing_more_however_important():
    new = request("new", SAVEPOINT, periodic=False)
    drop = decide_place(full(periodic=False), new)
    assert (drop.request, drop.reason) == (new, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS)


def test_a_full_queue_lets_its_worst_go_if_that_is_periodic():
    assert decide_place(full(), request("new", periodic=False)).request.request_id == f"r{CAPACITY - 1:04}"


def test_a_newcomer_that_is_the_worst_is_the_one_to_go():
    new = request("new", asked=5000)
    assert decide_place(full(), new).request == new


def test_a_request_that_waits_already_needs_no_more_room():
    assert decide_place(full(), full()[7]) is None


def test_a_request_counts_while_its_owner_looks_after_it():
    alive, dead = request("alive"), request("dead")
    dead = replace(dead, seen_at=at(100) - LEASE - timedelta(seconds=1))
    edge = replace(alive, request_id="edge", seen_at=at(100) - LEASE)
    assert choose_waiting([dead, alive, edge], at(100)) == sorted([alive, edge], key=precedence)
    assert choose_forgotten([dead, alive, edge], RegionRecord(), at(100)) == [dead]


def test_a_request_of_a_region_counts_while_that_is_current():
    mine, before = request(request_of_region(2, 1)), request(request_of_region(1, 9))
    asked = request(handed_over("r"))
    now = RegionRecord(2, at(0), at(100))
    assert choose_forgotten([mine, before, asked], now, at(100)) == [before]
    assert choose_forgotten([mine, before, asked], ended(now, at(100)), at(100)) == [mine, before]


OF_DAG_RUN = f"{requests_of_run('dag', 'run')}20260101T000000.000000"
TURNS = [  # first in line, whether a periodic checkpoint that is asked for now takes its turn
    (request("manual:1"), True),
    (request(request_of_region(1, 1)), True),
    (request(OF_DAG_RUN), False),
    (request(handed_over("r")), False),
    (request("manual:1", periodic=False), False),
    (request("manual:1", SAVEPOINT), False),
    (request("manual:1", forced=True), False),
]


@for_each(("first", "takes"), TURNS)
def test_who_asks_takes_the_turn_of_a_process_that_may_be_dead(first, takes):
    mine, dead = request("r", asked=50), request("manual:0", asked=-1)
    assert takes_turn(mine, [first, mine]) is takes
    assert takes_turn(mine, sorted([dead, first], key=precedence)) is takes
    assert takes_turn(first, [first])
    assert takes_turn(mine, [request(OF_DAG_RUN, asked=60), mine])


def test_what_was_dropped_waits_no_more():
    gone = request(dropped=FailureReason.COORDINATOR_SUSPEND, dropped_message="m")
    assert choose_waiting([gone], at(100)) == []


@for_each(("cleaning", "first"), [(0, False), (1, False), (2, True)])
def test_more_cleaning_than_checkpoints_at_once_comes_first(cleaning, first):
    assert must_clean_first(cleaning, 1) is first


def test_only_an_unacknowledged_checkpoint_expires():
    late = record(1, deadline=at(60))
    acknowledged = record(2, deadline=at(60), phase=Phase.ACKNOWLEDGED, acknowledged_at=at(59))
    early = record(3, deadline=at(60.001))
    assert choose_overdue([late, acknowledged, early], at(60)) == [late]


def test_a_held_checkpoint_expires_with_its_hold_and_not_before():
    held = record(1, deadline=at(60), phase=Phase.HELD, acknowledged_at=at(50), held_at=at(55), held_until=at(600))
    for choose in (choose_overdue, choose_abandoned):
        assert choose([held], at(599)) == []
        assert choose([held], at(600)) == [held]


def test_who_waits_behind_a_held_checkpoint_learns_how_to_decide():
    held = record(1, phase=Phase.HELD, held_at=at(55), held_until=at(600), held_message="Too late.")
    answer = choose(request(), in_progress=[held])
    assert isinstance(answer, Wait)
    assert "Too late." in answer.message
    assert "`tidegate approve p 1`" in answer.message


def test_a_new_request_pushes_aside_whatever_is_past_its_deadline():
    acknowledged = record(2, deadline=at(60), phase=Phase.ACKNOWLEDGED, acknowledged_at=at(59))
    assert choose_abandoned([acknowledged, record(3, deadline=at(61))], at(60)) == [acknowledged]
