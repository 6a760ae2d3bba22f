"""How busy the machine was while something was measured: the load average, and what others used of its processors."""

import os
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from process_tree import own_ticks

#: Seconds by the monotonic clock, and ticks so far: of all processors together, and of what is measured.
Sample = tuple[float, int, int]
#: From this share of the processors on, figures by the clock say little.
BUSY = 0.1
_INTERVAL = 1.0
_MINUTE = 60.0


class Load:
    """Looks once a second while a block runs. What is measured are this process, its descendants, and `also`.

    A process that lives for less than a second may count as another's.
    """

    def __init__(self) -> None:
        self._roots = [os.getpid()]
        self._ticks: dict[tuple[int, int], int] = {}
        self._samples: list[Sample] = []
        self._averages = [os.getloadavg()[0]] * 2
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def also(self, process: int) -> None:
        """A process that works for what is measured, and is no descendant, such as Postgres."""
        self._roots.append(process)

    def __enter__(self) -> "Load":
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()
        self._averages[1] = os.getloadavg()[0]

    def figures(self) -> dict[str, float]:
        overall, worst = others(self._samples, os.cpu_count() or 1, os.sysconf("SC_CLK_TCK"))
        began, ended = (round(average, 2) for average in self._averages)
        return {"began": began, "ended": ended, "others": round(overall, 3), "others_worst": round(worst, 3)}

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL):
            self._look()

    def _look(self) -> None:
        self._ticks.update(own_ticks(*self._roots))
        self._samples.append((time.monotonic(), _busy_ticks(), sum(self._ticks.values())))


def others(samples: Sequence[Sample], cores: int, ticks_a_second: int) -> tuple[float, float]:
    """What others used of all processors, as a share: on the whole, and in the worst minute."""
    minutes = [samples[0]]
    for sample in samples[1:-1]:
        if sample[0] - minutes[-1][0] >= _MINUTE:
            minutes.append(sample)
    if len(minutes) == 1 or samples[-1][0] - minutes[-1][0] >= _MINUTE / 2:
        minutes.append(samples[-1])

    def share(before: Sample, after: Sample) -> float:
        could = (after[0] - before[0]) * cores * ticks_a_second
        used = (after[1] - before[1]) - (after[2] - before[2])
        return max(0.0, used / could) if could > 0 else 0.0

    overall = share(samples[0], samples[-1])
    return overall, max(overall, *(share(*pair) for pair in pairwise(minutes)))


def sentence(figures: dict[str, float]) -> str:
    """The same in words."""
    said = (
        f"load average {figures['began']:.1f} when started and {figures['ended']:.1f} at the end; other programs used "
        f"{figures['others']:.0%} of the processors, {figures['others_worst']:.0%} in the worst minute"
    )
    if figures["others"] < BUSY:
        return said
    return f"{said}: the machine was busy, so look at processor time"


def _busy_ticks() -> int:
    """Of all processors since the start, what a hypervisor gave to others included."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + irq + softirq + steal
