"""Wall clocks that are set back and put right again, per process. Time itself, and the monotonic clock, go on.

It is drawn apart, and in some worlds only, so that a world without them stays as it was. No clock runs ahead of time:
who believes such a clock gives up what lives, and nobody could tell. A clock that is put right is ahead of what was
written meanwhile, and what was written before is ahead of a clock that is set back.
"""

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from simulator.scheduler import Process, require
from tidegate.protocol.continuous.regions import REGION_LEASE

if TYPE_CHECKING:
    from simulator.running import Process as Run
    from simulator.running import Running

BACK = [timedelta(0), timedelta(0), timedelta(minutes=-1), timedelta(minutes=-20), timedelta(hours=-5)]

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw what they always drew.
_SALTS = {"scheduled": 261, "continuous": 558}


class MovingClocks:
    """Of one world. `move` says whether any does."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random = Random(f"clocks {kind} {_SALTS[kind]} {seed}")
        self.move = self._random.random() < 0.1
        self._wrong: dict[Process | None, timedelta] = {}

    def of(self, process: Process | None) -> timedelta:
        """How far its clock is from the time, when it reads it now."""
        if self.move and self._random.random() < 0.01:
            self._wrong[process] = self._random.choice(BACK)
        return self._wrong.get(process, timedelta(0))


def check_waits(world: "Running", process: "Run", before: timedelta) -> None:
    """After a round that began at `before`: its periodic checkpoints go on, and it gives signs of life."""
    run, config = process.run, world.config
    if (due := run._asking._schedule.next_at) is not None and config.interval is not None:
        longest = max(config.interval, config.interval_during_backlog or config.interval, config.min_pause * 2)
        require(due - run._now <= longest, f"the next periodic checkpoint is due in {due - run._now} only")
    seen_at = world.store.state.region.seen_at
    if run._pace.polled_at >= before and world.store.state.region.attempt == run._attempt and seen_at is not None:
        away = abs(world.clock.now() - seen_at)
        require(away <= REGION_LEASE, f"the sign of life of a region that lives is {away} away from its clock")
