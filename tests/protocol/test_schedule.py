"""The periodic scheduler of protocol.md section 2, what follows from a drop for the minimum pause (section 3), and when
sources are polled."""

from datetime import timedelta

from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.continuous.schedule import PeriodicSchedule, PollSchedule

T0 = timedelta(days=3)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def schedule(interval=10, during_backlog=None, min_pause=0, fraction=1.0):
    def seconds(number):
        return None if number is None else timedelta(seconds=number)

    return PeriodicSchedule(
        seconds(interval), seconds(during_backlog), seconds(min_pause), started_at=T0, fraction=fraction
    )


@for_each(
    ("min_pause", "interval", "fraction", "first"),
    [(0, 10, 0, 0), (0, 10, 0.5, 5), (0, 10, 1, 10), (4, 10, 0, 4), (4, 10, 0.5, 7), (10, 10, 0.3, 10)],
)
def test_section_2_the_first_tick_comes_between_the_pause_and_the_interval(min_pause, interval, fraction, first):
    assert schedule(interval, min_pause=min_pause, fraction=fraction).next_at == at(first)


SECTION_2_TICKS = [  # seen to at, next
    ([10], 20),
    ([12], 20),
    ([19.9], 20),
    ([12, 23, 39], 40),
    ([20], 30),  # one interval late: what should have come at 20 is this one
    ([47], 50),
]


@for_each(("seen", "following"), SECTION_2_TICKS)
def test_section_2_a_tick_arms_the_next_one_and_never_drifts(seen, following):
    ticks = schedule()
    for second in seen:
        ticks.fired(at(second))
    assert ticks.next_at == at(following)


def test_section_2_without_an_interval_there_are_no_ticks():
    ticks = schedule(interval=None)
    assert ticks.next_at is None
    ticks.backlog(True, at(5))
    ticks.backlog(False, at(6))
    ticks.fired(at(7))
    assert ticks.next_at is None


SECTION_2_BACKLOG = [  # interval, during backlog, what happens (second, is_backlog or "tick"), next
    (10, None, [(3, True), (10, "tick")], 20),
    (10, 60, [(3, True)], 10),  # the armed tick stays: only the one after it comes later
    (10, 60, [(3, True), (10, "tick")], 70),
    (10, 60, [(3, True), (10, "tick"), (20, False)], 30),  # 20 + 10 comes before 70
    (10, 60, [(3, True), (10, "tick"), (65, False)], 70),  # 65 + 10 does not
    (10, 60, [(3, True), (10, "tick"), (20, False), (30, "tick")], 40),
    (10, 0, [(3, True)], None),
    (10, 0, [(3, True), (5, False)], 10),  # over before the armed tick was due
    (10, 0, [(3, True), (10, False)], 20),
    (10, 0, [(3, True), (500, False)], 510),
    (10, 0, [(3, True), (500, False), (503, True)], None),
    (10, 0, [(3, True), (500, False), (503, True), (505, False)], 510),
    (10, 60, [(3, True), (4, True), (5, False), (6, False)], 10),
]


@for_each(("interval", "during_backlog", "events", "following"), SECTION_2_BACKLOG)
def test_section_2_the_interval_during_a_backlog(interval, during_backlog, events, following):
    ticks = schedule(interval, during_backlog)
    for second, event in events:
        if event == "tick":
            assert ticks.next_at == at(second)
            ticks.fired(at(second))
        else:
            ticks.backlog(event, at(second))
    assert ticks.next_at == (None if following is None else at(following))


def test_section_3_a_tick_dropped_for_the_pause_comes_after_exactly_what_remains():
    ticks = schedule(10, min_pause=5)
    ticks.fired(at(10))
    ticks.dropped(timedelta(seconds=3.25), at(10.5))
    assert ticks.next_at == at(13.75)
    ticks.fired(at(14))
    assert ticks.next_at == at(23.75)


def test_section_3_a_drop_while_a_backlog_has_turned_ticks_off_starts_none():
    ticks = schedule(10, during_backlog=0, min_pause=5)
    ticks.fired(at(10))
    ticks.backlog(True, at(10))
    ticks.dropped(timedelta(seconds=3), at(10))
    assert ticks.next_at is None
    ticks.backlog(False, at(11))
    assert ticks.next_at == at(13)


MILLISECONDS = st.integers(min_value=10, max_value=100_000).map(lambda n: timedelta(milliseconds=n))
WAITS = st.integers(min_value=0, max_value=300_000).map(lambda n: timedelta(milliseconds=n))


@given(MILLISECONDS, st.floats(0, 1), st.lists(WAITS, max_size=30))
def test_ticks_stay_on_their_grid_however_late_they_are_seen_to(interval, fraction, late):
    ticks = PeriodicSchedule(interval, None, timedelta(0), started_at=T0, fraction=fraction)
    first = ticks.next_at
    assert T0 <= first <= T0 + interval
    for delay in late:
        armed = ticks.next_at
        ticks.fired(armed + delay)
        assert (ticks.next_at - first) % interval == timedelta(0)
        assert armed + delay < ticks.next_at <= armed + delay + interval


EVENTS = st.lists(st.tuples(WAITS, st.sampled_from(["loop", "backlog", "caught up", "drop"])), max_size=40)


@given(MILLISECONDS, st.sampled_from([None, 0, 1, 3]), st.floats(0, 1), st.floats(0, 1), EVENTS)
def test_ticks_never_come_before_they_may_and_never_stop(interval, slower, pause, fraction, events):
    """Whatever happens, what is armed is no further away than an interval, and nothing is asked for while it is off."""
    during_backlog = None if slower is None else slower * interval
    min_pause = pause * interval
    ticks = PeriodicSchedule(interval, during_backlog, min_pause, started_at=T0, fraction=fraction)
    assert ticks.next_at >= T0 + min_pause
    now, behind, earliest = T0, False, T0 + min_pause
    for wait, event in events:
        now += wait
        if event == "loop":
            if ticks.next_at is not None and ticks.next_at <= now:
                assert ticks.next_at >= earliest
                ticks.fired(now)
        elif event == "drop":
            ticks.dropped(min_pause, now)
            earliest = now + min_pause
        else:
            behind = event == "backlog"
            ticks.backlog(behind, now)
        current = during_backlog if behind and during_backlog is not None else interval
        assert (ticks.next_at is None) == (not current)
        assert ticks.next_at is None or ticks.next_at <= now + max(interval, current)


@for_each(("took", "wait"), [(0, 0.05), (0.02, 0.18), (1, 0.5)])
def test_a_poll_that_found_nothing_and_took_long_is_followed_by_a_longer_wait(took, wait):
    polls = PollSchedule(T0)
    assert polls.is_due(T0)
    polls.found_nothing(T0, at(took))
    assert polls.wait(at(took)) == timedelta(seconds=wait)
    assert polls.is_due(at(took)) == (took == 0), "one that took no time costs nothing"
    assert polls.is_due(at(took + wait))
