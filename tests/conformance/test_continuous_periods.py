"""When a continuous run takes its periodic checkpoints and polls its sources, on every store."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from live_pipelines import CountingRegion, Live

from tidegate.ports import Round
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import Dropped


def noted(
    one: Live, monkeypatch: pytest.MonkeyPatch, takes: float, is_writing: bool = False
) -> list[tuple[str, float]]:
    """What its regions do from now on, with the second at which it begins. A poll takes so many seconds."""
    seen: list[tuple[str, float]] = []
    advance, begin = CountingRegion.advance, CountingRegion.begin

    def advances(region: CountingRegion, polls: bool) -> Round:
        seen.append(("polls" if polls else "goes on", one.second))
        one.world.clock.advance(takes if polls else 0)
        return replace(advance(region, polls), writing=is_writing)

    def begins(region: CountingRegion, task: SnapshotTask) -> None:
        seen.append(("begins", one.second))
        begin(region, task)

    monkeypatch.setattr(CountingRegion, "advance", advances)
    monkeypatch.setattr(CountingRegion, "begin", begins)
    return seen


def test_periodic_checkpoints_keep_to_their_grid(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    assert one.run(until=45).status is PipelineStatus.RUNNING
    assert one.triggered() == [10, 20, 30, 40]
    assert one.notified == [f"{what} {n}" for n in (1, 2, 3, 4) for what in ("begin", "completed")]
    assert all(record.periodic for record in one.world.store.history("p", 10))
    assert not one.world.coordinator.has_live_region()
    one.check()


def test_an_idle_run_waits_no_longer_than_until_its_next_checkpoint(live: Callable[..., Live]) -> None:
    one = live(interval="1030 ms")
    one.run(until=2)
    assert one.waited == pytest.approx([0.05, 0.03])


@pytest.mark.parametrize(("takes", "waits"), [(0, 0.05), (0.02, 0.18), (1, 0.5)])
def test_polls_that_take_long_are_further_apart(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch, takes: float, waits: float
) -> None:
    one = live()
    noted(one, monkeypatch, takes)
    one.run(until=4)
    assert one.waited[0] == pytest.approx(waits)


def test_what_landed_while_it_waited_for_a_checkpoint_is_in_it(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be in the next one, an interval later. A directory of many files is seldom polled."""
    one = live(interval="1 s")
    one.quiet = True
    seen = noted(one, monkeypatch, takes=0.03)
    one.run(until=1.5)
    begun = [what for what, _ in seen].index("begins")
    (before, polled), (_, at) = seen[begun - 1 : begun + 1]
    assert (before, polled) == ("polls", 1), "an ordinary poll is made at 0.9 and would be at 1.2"
    assert at == pytest.approx(1.03)


def test_polls_that_take_long_are_not_more_often_while_a_snapshot_is_written(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = live()
    one.quiet = True
    seen = noted(one, monkeypatch, takes=0.02, is_writing=True)
    one.run(until=2)
    found = Counter(what for what, _ in seen)
    assert 9 <= found["polls"] <= 11, "a tenth of the time, not half of it"
    assert found["goes on"] > 60, "and nothing that was written waits for one"


def test_without_an_interval_there_are_none(live: Callable[..., Live]) -> None:
    one = live()
    one.run(until=100)
    assert one.history() == []


def test_one_that_comes_within_the_minimum_pause_is_asked_for_again_when_it_ends(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", min_pause="6 s")
    one.at(16, lambda: one.world.ask("by hand"))
    one.run(until=45)
    assert one.triggered() == [10, 16, 23, 33, 43], "the one by hand completed at 17"


def test_a_pause_that_another_request_was_answered_with_is_asked_for_again(live: Callable[..., Live]) -> None:
    """The region's request waits. When the pause has begun, a scheduled one asks first, and drops it."""
    one = live(interval="10 s", min_pause="6 s")
    outcomes: list[object] = []
    one.at(10, lambda: one.world.ask("by hand"))
    one.at(12, lambda: outcomes.append(one.world.ask("dag", periodic=True)))
    one.run(until=20)
    assert isinstance(outcomes[0], Dropped)
    assert one.triggered() == [10, 17], "completed at 11"


def test_while_a_source_is_behind_the_other_interval_holds(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", interval_during_backlog="30 s")
    one.is_behind = True
    one.at(65, lambda: setattr(one, "is_behind", False))
    one.run(until=100)
    assert one.triggered()[:2] == [10, 40]
    assert one.triggered()[2:] == [70, 80, 90]


def test_a_backlog_may_switch_them_off(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", interval_during_backlog="0 s")
    one.is_behind = True
    one.at(50, lambda: setattr(one, "is_behind", False))
    one.run(until=75)
    assert one.triggered() == [60, 70]
