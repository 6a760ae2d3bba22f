"""Turns measurements into figures: medians, ratios to Structured Streaming, and which targets were met.

Warm epochs only, and of each the median with the smallest and largest value. Less is better everywhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

#: Seconds per epoch as a ratio to Structured Streaming's, by keys and events.
EPOCH_TARGETS = {
    (10_000_000, 1_000_000): 0.2,
    (10_000_000, 100_000): 0.35,
    (1_000_000, 100_000): 0.5,
    (1_000_000, 10_000): 0.55,
    (100_000, 10_000): 0.6,
}
RESTART_TARGETS = {10_000_000: 0.4}
GROWTH_TARGET = 1.5
RESOURCE_TARGET = 1.0
FIXED_COST_TARGET = 0.150  # seconds
EMITTING_TARGET = 1.2  # of the epoch without emitted rows
EXPIRING_TARGET = 1.2  # of the epoch without a ttl
WINDOWED_TARGET = 0.5
TABLES_TARGET = 1.4  # of the epoch without tables
JUDGED_TARGET = 0.5  # of Structured Streaming's
EMPTY_TARGET = 0.06  # seconds

_PARTS = ("spark", "state", "store", "metadata", "compaction", "rest")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report: what was measured, its ratio (or value), and the target, None where there is none."""

    what: str
    measured: str
    value: float
    target: float | None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.value <= self.target else "missed"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def figures(
    results: list[dict[str, Any]],
    fixed_cost: list[float],
    emitting: list[list[float]],
    expiring: list[list[float]],
    windowed: dict[str, list[float]],
) -> list[Figure]:
    by_keys = {result["keys"]: result for result in results}
    found = [figure for result in results for figure in _ratios(result)]
    found += _growth(by_keys)
    if fixed_cost:
        measured = spread(fixed_cost, 1000, "ms")
        found.append(Figure("fixed cost, seconds", measured, median(fixed_cost), FIXED_COST_TARGET))
    found += _in_turns("epoch with emitted rows", emitting, EMITTING_TARGET)
    found += _in_turns("epoch with a ttl", expiring, EXPIRING_TARGET)
    if windowed:
        ours, theirs = windowed["tidegate"], windowed["streaming"]
        measured = f"{spread(ours, 1, 's')} : {spread(theirs, 1, 's')}"
        found.append(Figure("windowed count: epoch", measured, median(ours) / median(theirs), WINDOWED_TARGET))
    return found


def of_tables(costs: dict[str, list[list[float]]]) -> Iterator[Figure]:
    """Each by the clock, and of processors."""
    for at, (unit, clock) in enumerate((("", True), (", processor time", False))):
        seconds = {name: [cost[at] for cost in each] for name, each in costs.items()}
        pair = [seconds["without_tables"], seconds["with_tables"]]
        yield from _in_turns(f"epoch with judged tables{unit}", pair, TABLES_TARGET if clock else None)
        ours, theirs = seconds["with_tables"], seconds["streaming"]
        measured = f"{spread(ours, 1, 's')} : {spread(theirs, 1, 's')}"
        target = JUDGED_TARGET if clock else None
        yield Figure(f"judged tables: epoch{unit}", measured, median(ours) / median(theirs), target)
        empty = seconds["empty"]
        what = f"empty checkpoint with judged tables{unit}, seconds"
        yield Figure(what, spread(empty, 1000, "ms"), median(empty), EMPTY_TARGET if clock else None)


def _in_turns(what: str, seconds: list[list[float]], target: float | None) -> Iterator[Figure]:
    if seconds:
        without, with_it = seconds
        measured = f"{spread(with_it, 1, 's')} / {spread(without, 1, 's')}"
        yield Figure(what, measured, median(with_it) / median(without), target)


def _ratios(result: dict[str, Any]) -> Iterator[Figure]:
    keys = result["keys"]
    for events in _series(result):
        where = f"{short(keys)} keys, {short(events)} events"
        target = EPOCH_TARGETS.get((keys, events))
        yield _ratio(f"{where}: epoch", "s", target, result, "seconds", events)
        yield _ratio(f"{where}: processor time", "s", None, result, "processors", events)
        target = None if (keys, events) not in EPOCH_TARGETS else RESOURCE_TARGET
        yield _mean_ratio(f"{where}: bytes written", target, result, "written", events)
        yield _mean_ratio(f"{where}: checkpoint bytes", None, result, "checkpoint_bytes", events)
    ours, theirs = (_restart(result[engine]) for engine in ("tidegate", "streaming"))
    measured = f"{ours:.2f} s : {theirs:.2f} s"
    yield Figure(f"{short(keys)} keys: restart to first epoch", measured, ours / theirs, RESTART_TARGETS.get(keys))
    ours, theirs = (max(epoch["memory"] for epoch in result[engine]) for engine in ("tidegate", "streaming"))
    measured = f"{ours / 2**20:,.0f} MiB : {theirs / 2**20:,.0f} MiB"
    yield Figure(f"{short(keys)} keys: peak memory", measured, ours / theirs, RESOURCE_TARGET)


def _ratio(what: str, unit: str, target: float | None, result: dict[str, Any], field: str, events: int) -> Figure:
    ours, theirs = ([e[field] for e in warm(result[engine], events)] for engine in ("tidegate", "streaming"))
    measured = f"{spread(ours, 1, unit)} : {spread(theirs, 1, unit)}"
    return Figure(what, measured, median(ours) / median(theirs), target)


def _mean_ratio(what: str, target: float | None, result: dict[str, Any], field: str, events: int) -> Figure:
    """Means, because what either engine writes now and then (compaction, snapshots) belongs to the epochs it served."""
    ours, theirs = (mean(e[field] for e in warm(result[engine], events)) for engine in ("tidegate", "streaming"))
    return Figure(what, f"{ours / 1e6:,.2f} MB : {theirs / 1e6:,.2f} MB", ours / theirs, target)


def _growth(by_keys: dict[int, dict[str, Any]]) -> Iterator[Figure]:
    small, large = min(by_keys), max(by_keys)
    if small == large:
        return
    for events in sorted(set(_series(by_keys[small])) & set(_series(by_keys[large]))):
        before, after = ([e["seconds"] for e in warm(by_keys[keys]["tidegate"], events)] for keys in (small, large))
        measured = f"{spread(before, 1, 's')} -> {spread(after, 1, 's')}"
        what = f"{short(events)} events: growth from {short(small)} to {short(large)} keys"
        target = GROWTH_TARGET if (small, large) == (100_000, 10_000_000) else None
        yield Figure(what, measured, median(after) / median(before), target)


def splits(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """How Tidegate's seconds divide, medians of the warm epochs of each series."""
    rows = []
    for result in results:
        for events in _series(result):
            epochs = warm(result["tidegate"], events)
            parts = {part: median(epoch["split"][part] for epoch in epochs) for part in _PARTS}
            rows.append({"keys": result["keys"], "events": events, **parts})
    return rows


def warm(epochs: list[dict[str, Any]], events: int) -> list[dict[str, Any]]:
    return [e for e in epochs if e["phase"] == "epochs" and e["events"] == events and not e["warm_up"]]


def _series(result: dict[str, Any]) -> list[int]:
    return sorted({epoch["events"] for epoch in result["tidegate"] if epoch["phase"] == "epochs"})


def _restart(epochs: list[dict[str, Any]]) -> float:
    return float(next(epoch["since_start"] for epoch in epochs if epoch["phase"] == "restart"))


def spread(values: list[float], scale: float, unit: str) -> str:
    digits = 0 if unit == "ms" else 2
    low, middle, high = (f"{value * scale:.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} {unit} ({low}–{high})"


def short(number: int) -> str:
    return f"{number // 1_000_000} M" if number >= 1_000_000 else f"{number // 1000} k"
