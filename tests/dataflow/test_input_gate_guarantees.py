"""What a snapshot knows, whatever the order of arrival: exactly once, at least once and unaligned, through the gate."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from gates import AT_LEAST_ONCE, EXACTLY_ONCE, TRIGGERED, SettableClock, name_of, open_gate, segment
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.dataflow.elements import Aborted, Aligned, Released, SnapshotDue, milliseconds
from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import AlignmentType, Barrier, BarrierOptions, EndOfPartition
from tidegate.protocol.barriers.options import GateOptions, choose_barrier_options


class Story:
    """Channels with numbered data, barriers 1 to n and, for some, an early end, fed and drained in a random order.

    A checkpoint is triggered once the one before is complete (`one_at_a_time`) or whenever.
    """

    def __init__(self, random: Any, plan: list[list[int]], options: GateOptions, one_at_a_time: bool) -> None:
        self.random, self.clock = random, SettableClock()
        self.gate = open_gate(len(plan), options, self.clock)
        self.barriers = max(len(channel) for channel in plan) - 1
        kinds = {id_: choose_barrier_options(options, random.random() < 0.3) for id_ in range(1, self.barriers + 1)}
        self.one_at_a_time = one_at_a_time
        self.before: dict[int, set[int]] = {id_: set() for id_ in kinds}  # what lies before a barrier, in any channel
        self.channels: list[list[Any]] = []
        names = count()
        for index, sizes in enumerate(plan):
            elements: list[Any] = []
            for number, size in enumerate(sizes, start=1):
                for name in [next(names) for _ in range(size)]:
                    elements.append(segment(name))
                    for id_ in range(number, self.barriers + 1):
                        self.before[id_].add(name)
                if number in kinds:
                    elements.append(self._barrier(number, index, kinds[number]))
            ends_early = len(sizes) <= self.barriers
            self.channels.append([*elements[:-1], EndOfPartition(index)] if ends_early else elements)
        self.released: list[int] = []
        self.released_before: dict[int, set[int]] = {}
        self.captured: dict[int, list[int]] = {}

    def _barrier(self, checkpoint_id: int, channel: int, options: BarrierOptions) -> Barrier:
        if options.times_out_after is not None and self.random.random() < 0.3:  # the upstream has switched already
            options = replace(options, alignment=AlignmentType.UNALIGNED)
        return Barrier(checkpoint_id, channel, options, milliseconds(TRIGGERED))

    def run(self) -> None:
        while any(self.channels):
            self.clock.pass_milliseconds(self.random.choice([0, 0, 1]))
            feedable = [
                channel for channel, elements in enumerate(self.channels) if elements and self._due(elements[0])
            ]
            if feedable and self.random.random() < 0.7:
                self._feed(self.random.choice(feedable))
            else:
                self._drain(self.random.choice([0, 1, 1, 2, None]) if feedable else None)
        self._drain(None)

    def _due(self, element: Any) -> bool:
        first_missing = len(self.captured) + 1
        return not (self.one_at_a_time and isinstance(element, Barrier) and element.checkpoint_id > first_missing)

    def _feed(self, channel: int) -> None:
        element = self.channels[channel].pop(0)
        if isinstance(element, Segment):
            self.gate.offer(channel, replace(element, bytes=1))
        else:
            self.gate.signal(element)

    def _drain(self, max_bytes: int | None) -> None:
        for output in self.gate.drain(max_bytes):
            match output:
                case Released():
                    self.released.append(name_of(output))
                case SnapshotDue():
                    assert output.checkpoint_id not in self.released_before
                    self.released_before[output.checkpoint_id] = set(self.released)
                case Aligned():
                    self.captured[output.checkpoint_id] = [name_of(in_flight) for in_flight in output.captured]
                case Aborted():
                    raise AssertionError(output)


PLANS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4)
RANDOM = st.randoms(use_true_random=False)


def told(plan: list[list[int]], random: Any, options: GateOptions, one_at_a_time: bool = False) -> Story:
    story = Story(random, plan, options, one_at_a_time)
    story.run()
    everything = sum(size for channel in plan for size in channel)
    assert sorted(story.released) == list(range(everything))  # all of it, once
    place = story.released.index
    names = count()
    for channel in plan:
        within = [place(next(names)) for _ in range(sum(channel))]
        assert within == sorted(within)  # a channel's order is never changed
    return story


@settings(deadline=None)
@given(PLANS, RANDOM)
def test_exactly_once_aligned_the_snapshot_knows_exactly_what_is_before_the_barriers(
    plan: list[list[int]], random: Any
) -> None:
    story = told(plan, random, EXACTLY_ONCE)
    assert story.released_before == story.before
    assert not any(story.captured.values())


@pytest.mark.parametrize("one_at_a_time", [True, False])
@settings(deadline=None)
@given(plan=PLANS, random=RANDOM)
def test_at_least_once_the_snapshot_misses_nothing_that_is_before_the_barriers(
    one_at_a_time: bool, plan: list[list[int]], random: Any
) -> None:
    story = told(plan, random, AT_LEAST_ONCE, one_at_a_time)
    if one_at_a_time:  # several at once overtake one another
        assert story.released_before.keys() == story.before.keys()
    for checkpoint_id, known in story.released_before.items():
        assert story.before[checkpoint_id] <= known


@pytest.mark.parametrize("timeout", [0, 1, 3, 1000])
@settings(deadline=None)
@given(plan=PLANS, random=RANDOM)
def test_unaligned_the_snapshot_and_what_was_captured_are_exactly_what_is_before_the_barriers(
    timeout: int, plan: list[list[int]], random: Any
) -> None:
    story = told(plan, random, GateOptions(unaligned=True, aligned_timeout=timeout), one_at_a_time=True)
    assert story.captured.keys() == story.before.keys()
    for checkpoint_id, known in story.released_before.items():
        in_flight = story.captured[checkpoint_id]
        assert sorted([*known, *in_flight]) == sorted(story.before[checkpoint_id])
