"""Operators of a simulated pipeline whose rows expire: how a row's time lies in its value, and who else would know it.

By processing time the stored value has the time of the last change in front of it, so that a comparison of states
compares that, too. By event time the value is the time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema import expiry
from tidegate.protocol.schema.expiry import Moment, RecordedTtl, TimeToLive

if TYPE_CHECKING:
    from simulator.world import World

_BITS = 31
TICK = 1_000  # microseconds that one more of a value means by event time

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the pipelines that they always drew.
_SALT = 1


def draw_ttl(world: "World", random: Random) -> dict[str, Any]:
    """Arguments of an operator. Draws of its own, so that the rest stays as it was drawn."""
    if world.drawn.forking or world.drawn.changes or world.drawn.saving or random.random() < 0.5:
        return {}
    if random.random() < 0.5:
        return {"ttl": f"{random.choice([30, 200, 1000])} s"}
    return {"ttl": f"{random.choice([50, 300])} ms", "ttl_by": "v"}


def expiring(seed: int) -> Random:
    return Random(f"expiring {_SALT} {seed}")


def stored(ttl: TimeToLive | None, value: int, at: int) -> int:
    return (at << _BITS) | value if ttl is not None and ttl.processing_time else value


def plain(ttl: TimeToLive | None, state: Mapping[int, int]) -> dict[int, int]:
    """What the operator's function and readers know."""
    if ttl is None or not ttl.processing_time:
        return dict(state)
    return {key: value & ((1 << _BITS) - 1) for key, value in state.items()}


def time_of(ttl: TimeToLive, value: int) -> int:
    return value >> _BITS if ttl.processing_time else value * TICK


def alive(ttl: TimeToLive | None, state: Mapping[int, int], horizon: int | None) -> dict[int, int]:
    if ttl is None or horizon is None:
        return dict(state)
    return {key: value for key, value in state.items() if time_of(ttl, value) > horizon}


class Judged:
    """What a subtask is given of its state by the real rules, and what becomes of what it writes."""

    def __init__(
        self, ttl: TimeToLive | None, state: dict[int, int], runs: Sequence[StateHandle], moment: Moment
    ) -> None:
        self._ttl = ttl
        self._at = moment.at
        self.horizon: int | None = None
        if ttl is not None:
            self.horizon = expiry.find_horizon(ttl.column, ttl.after, ttl.processing_time, runs, moment)
        if ttl is not None and ttl.processing_time and self.horizon is not None:
            self._at = self.horizon + ttl.after
        self._kept = alive(ttl, state, self.horizon)
        self._all = state
        self.seen = plain(ttl, self._kept)

    def after(self, changed: Mapping[int, int]) -> dict[int, int]:
        """What is to be seen then."""
        fresh = {key: stored(self._ttl, value, self._at) for key, value in changed.items()}
        return plain(self._ttl, alive(self._ttl, self._kept | fresh, self.horizon))

    def written(self, changed: Mapping[int, int]) -> tuple[dict[int, int], RecordedTtl | None]:
        fresh = {key: stored(self._ttl, value, self._at) for key, value in changed.items()}
        if self._ttl is None:
            return fresh, None
        clock = None if self.horizon is None else self.horizon + self._ttl.after
        return fresh, self._recorded(replace(self._current(), clock=clock), fresh)

    def merged(
        self, chosen: Sequence[StateHandle], checkpoint_id: int, is_oldest: bool
    ) -> tuple[dict[int, int], RecordedTtl | None]:
        """Expired rows go if nothing older is left that they hide."""
        if self._ttl is None:
            return self._all, None
        rows = self._kept if is_oldest else self._all
        recorded = expiry.merged(self._current(), chosen, checkpoint_id)
        recorded = expiry.with_removed(recorded, len(self._all) - len(rows), self.horizon)
        return rows, self._recorded(recorded, rows)

    def _current(self) -> RecordedTtl:
        assert self._ttl is not None
        return RecordedTtl(self._ttl.column, self._ttl.after, self._ttl.processing_time)

    def _recorded(self, recorded: RecordedTtl, rows: Mapping[int, int]) -> RecordedTtl:
        assert self._ttl is not None
        times = [time_of(self._ttl, value) for value in rows.values()]
        return expiry.with_times(recorded, min(times), max(times)) if times else recorded


#: What the count of removed rows asks of a handle.
SPREAD = {"min_hash": "0", "max_parallelism": 1}


class Lives:
    """The obviously right clock of one operator, in the states of a plain execution, with which it goes back."""

    def __init__(self, name: str, ttl: TimeToLive | None, states: dict[str, dict[int, int]]) -> None:
        self.ttl = ttl
        self._known = states.setdefault(f"{name} lives", {})

    @property
    def horizon(self) -> int | None:
        return self._known.get(1)

    @property
    def next_horizon(self) -> int | None:
        """That of whatever follows, at least: what has expired by it may have been taken away."""
        return self._known[0] - self.ttl.after if self.ttl is not None and 0 in self._known else None

    def begin(self, triggered_at: int) -> int:
        """When rows are changed that are changed now."""
        if self.ttl is None:
            return triggered_at
        clock = self._known.get(0)
        if self.ttl.processing_time:
            clock = triggered_at if clock is None else max(clock, triggered_at)
        if clock is not None:
            self._known[1] = clock - self.ttl.after
        return triggered_at if clock is None else clock

    def wrote(self, values: Iterable[int]) -> None:
        if self.ttl is not None:
            times = [time_of(self.ttl, value) for value in values]
            self._known[0] = max([*times, *([self._known[0]] if 0 in self._known else [])], default=-1)
            if self._known[0] < 0:
                del self._known[0]
