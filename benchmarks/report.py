"""Turns measurements into figures: medians, ratios to Structured Streaming, and which targets were met.

Warm epochs only, and of each the median with the smallest and largest value. Less is better everywhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from costs import Cost
from measuring import ENGINES

#: An epoch as a ratio to Structured Streaming's, by the clock and of processors, by keys and events.
EPOCH_TARGETS = {
    (10_000_000, 1_000_000): 0.1,
    (10_000_000, 100_000): 0.2,
    (1_000_000, 100_000): 0.3,
    (1_000_000, 10_000): 0.3,
    (100_000, 10_000): 0.35,
}
RESTART_TARGETS = {10_000_000: 0.25}
#: Behind a transform, of processors alone.
BEHIND_TARGETS = {(1_000_000, 100_000): 0.2, (1_000_000, 10_000): 0.35, (100_000, 10_000): 0.35}
BEHIND_RESTART_TARGET = 0.5
SHAPE_TARGET = 0.5  # of Structured Streaming's processors
GROWTH_TARGET = 1.5
WRITTEN_TARGET = 1.0
MEMORY_TARGET = 0.9
FIXED_COST_TARGET = 0.150  # seconds
EMITTING_TARGET = 1.2  # of the epoch without emitted rows
EXPIRING_TARGET = 1.2  # of the epoch without a ttl
WINDOWED_TARGET = 0.5
TABLES_TARGETS = {(100_000, 10_000): 1.4}  # of the epoch without tables
WRITING_TARGET = 1.3  # of that epoch and plainly writing the rows of files that change
JUDGED_TARGET = 0.5  # of Structured Streaming's
EMPTY_TARGET = 0.06  # seconds

_PARTS = ("spark", "state", "store", "metadata", "compaction", "rest")
#: What a cost has, by the clock and of processors, and how it is called.
_KINDS = ("", ", processor time")


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


def figures(found: dict[str, Any]) -> list[Figure]:
    """Of all scenes that were measured."""
    results = found.get("epochs", [])
    figures = [figure for result in results for figure in _ratios(result)]
    figures += _growth({result["keys"]: result for result in results})
    if fixed_cost := found.get("fixed cost"):
        measured = spread(fixed_cost, 1000, "ms")
        figures.append(Figure("fixed cost, seconds", measured, median(fixed_cost), FIXED_COST_TARGET))
    figures += _in_turns("epoch with emitted rows", found.get("emitted rows"), EMITTING_TARGET)
    figures += _in_turns("epoch with a ttl", found.get("state that ends"), EXPIRING_TARGET)
    if windowed := found.get("windowed counts"):
        figures += _costs("windowed count: epoch", windowed["tidegate"], windowed["streaming"], WINDOWED_TARGET)
    for result in found.get("behind transforms", []):
        figures += _behind(result)
    for shape in found.get("shapes", []):
        figures += _costs(f"{shape['shape']}: epoch", shape["tidegate"], shape["streaming"], SHAPE_TARGET)
    for judged in found.get("tables", []):
        figures += _of_tables(judged)
    if empty := found.get("empty checkpoints"):
        for at, kind in enumerate(_KINDS):
            seconds = [cost[at] for cost in empty]
            what = f"empty checkpoint with judged tables{kind}, seconds"
            figures.append(Figure(what, spread(seconds, 1000, "ms"), median(seconds), None if at else EMPTY_TARGET))
    return figures


def _of_tables(judged: dict[str, Any]) -> Iterator[Figure]:
    for events, costs in judged["costs"].items():
        where = f"{short(judged['keys'])} keys, {short(events)} events"
        without, with_tables = costs["without_tables"], costs["with_tables"]
        for at, kind in enumerate(_KINDS):
            pair = [[cost[at] for cost in each] for each in (without, with_tables)]
            plain = [cost[at] for cost in costs["plain"]]
            target = None if at else TABLES_TARGETS.get((judged["keys"], events))
            yield from _in_turns(f"{where}: epoch with judged tables{kind}", pair, target)
            beside = f"{where}: the same to an epoch and writing its rows{kind}"
            yield _beside_writing(beside, pair[0], pair[1], plain)
        yield from _costs(f"{where}: judged tables: epoch", with_tables, costs["streaming"], JUDGED_TARGET)


def _costs(what: str, ours: list[Cost], theirs: list[Cost], target: float) -> Iterator[Figure]:
    """The ratio to Structured Streaming, by the clock and of processors."""
    for at, kind in enumerate(_KINDS):
        yield pair(f"{what}{kind}", [cost[at] for cost in ours], [cost[at] for cost in theirs], target)


def pair(what: str, ours: Sequence[float], theirs: Sequence[float], target: float | None) -> Figure:
    return Figure(what, f"{spread(ours, 1, 's')} : {spread(theirs, 1, 's')}", median(ours) / median(theirs), target)


def _in_turns(what: str, seconds: list[list[float]] | None, target: float | None) -> Iterator[Figure]:
    if seconds:
        without, with_it = seconds
        measured = f"{spread(with_it, 1, 's')} / {spread(without, 1, 's')}"
        yield Figure(what, measured, median(with_it) / median(without), target)


def _beside_writing(
    what: str, without: Sequence[float], with_tables: Sequence[float], plain: Sequence[float]
) -> Figure:
    both = median(without) + median(plain)
    measured = f"{spread(with_tables, 1, 's')} / {median(without):.2f} s + {spread(plain, 1, 's')}"
    return Figure(what, measured, median(with_tables) / both, WRITING_TARGET)


def _ratios(result: dict[str, Any]) -> Iterator[Figure]:
    keys = result["keys"]
    for events in series_of(result):
        where = f"{short(keys)} keys, {short(events)} events"
        target = EPOCH_TARGETS.get((keys, events))
        for what, field in (("epoch", "seconds"), ("processor time", "processors")):
            ours, theirs = _of_both(result, events, field)
            yield pair(f"{where}: {what}", ours, theirs, target)
        written = None if target is None else WRITTEN_TARGET
        yield _mean_ratio(f"{where}: bytes written", written, result, "written", events)
        yield _mean_ratio(f"{where}: checkpoint bytes", None, result, "checkpoint_bytes", events)
    for what, field in (("", "since_start"), (", processor time", "processors_since_start")):
        ours_once, theirs_once = (restart(result[engine])[field] for engine in ENGINES)
        measured = f"{ours_once:.2f} s : {theirs_once:.2f} s"
        target = None if what else RESTART_TARGETS.get(keys)
        yield Figure(f"{short(keys)} keys: restart to first epoch{what}", measured, ours_once / theirs_once, target)
    ours_peak, theirs_peak = (peak(result[engine]) for engine in ENGINES)
    yield of_memory(f"{short(keys)} keys: peak memory", ours_peak, theirs_peak, MEMORY_TARGET)


def of_memory(what: str, ours: float, theirs: float, target: float | None) -> Figure:
    return Figure(what, f"{ours / 2**20:,.0f} MiB : {theirs / 2**20:,.0f} MiB", ours / theirs, target)


def _behind(result: dict[str, Any]) -> Iterator[Figure]:
    for events in series_of(result):
        where = f"{result['shape']}, {short(result['keys'])} keys, {short(events)} events"
        for what, field in (("epoch", "seconds"), ("processor time", "processors")):
            target = BEHIND_TARGETS.get((result["keys"], events)) if field == "processors" else None
            ours, theirs = _of_both(result, events, field)
            yield pair(f"{where}: {what}", ours, theirs, target)
    once, theirs_once = (restart(result[engine])["processors_since_start"] for engine in ENGINES)
    what = f"{result['shape']}, {short(result['keys'])} keys: restart to first epoch, processor time"
    yield Figure(what, f"{once:.2f} s : {theirs_once:.2f} s", once / theirs_once, BEHIND_RESTART_TARGET)


def _of_both(result: dict[str, Any], events: int, field: str) -> tuple[list[float], list[float]]:
    ours, theirs = ([epoch[field] for epoch in warm(result[engine], events)] for engine in ENGINES)
    return ours, theirs


def _mean_ratio(what: str, target: float | None, result: dict[str, Any], field: str, events: int) -> Figure:
    """Means, because what either engine writes now and then (compaction, snapshots) belongs to the epochs it served."""
    ours, theirs = (mean(e[field] for e in warm(result[engine], events)) for engine in ("tidegate", "streaming"))
    return Figure(what, f"{ours / 1e6:,.2f} MB : {theirs / 1e6:,.2f} MB", ours / theirs, target)


def _growth(by_keys: dict[int, dict[str, Any]]) -> Iterator[Figure]:
    """Of epochs that are as large over the smallest and over the largest state."""
    for events in sorted({events for result in by_keys.values() for events in series_of(result)}):
        having = [keys for keys in by_keys if events in series_of(by_keys[keys])]
        small, large = min(having), max(having)
        if small == large:
            continue
        before, after = ([e["seconds"] for e in warm(by_keys[keys]["tidegate"], events)] for keys in (small, large))
        measured = f"{spread(before, 1, 's')} -> {spread(after, 1, 's')}"
        what = f"{short(events)} events: growth from {short(small)} to {short(large)} keys"
        yield Figure(what, measured, median(after) / median(before), GROWTH_TARGET)


def splits(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """How Tidegate's seconds divide, medians of the warm epochs of each series."""
    rows = []
    for result in results:
        for events in series_of(result):
            epochs = warm(result["tidegate"], events)
            parts = {part: median(epoch["split"][part] for epoch in epochs) for part in _PARTS}
            rows.append({"keys": result["keys"], "events": events, **parts})
    return rows


def warm(epochs: list[dict[str, Any]], events: int) -> list[dict[str, Any]]:
    return [e for e in epochs if e["phase"] == "epochs" and e["events"] == events and not e["warm_up"]]


def series_of(result: dict[str, Any]) -> list[int]:
    return sorted({epoch["events"] for epoch in result["tidegate"] if epoch["phase"] == "epochs"})


def restart(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    return next(epoch for epoch in epochs if epoch["phase"] == "restart")


def peak(epochs: list[dict[str, Any]]) -> int:
    return max(int(epoch["memory"]) for epoch in epochs)


def spread(values: Sequence[float], scale: float, unit: str) -> str:
    digits = 0 if unit == "ms" else 2
    low, middle, high = (f"{value * scale:.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} {unit} ({low}–{high})"


def short(number: int) -> str:
    return f"{number // 1_000_000} M" if number >= 1_000_000 else f"{number // 1000} k"
