"""What a run of `make bench` measured, as series of repetitions that are kept and compared with those of before."""

from collections.abc import Iterable
from typing import Any

from costs import Cost
from kept_figures import Series
from report import peak, restart, series_of, short, warm

Found = dict[str, dict[str, dict[str, list[float]]]]
#: Epochs, with tables or without, are named after their numbers of keys and events.
WITH_TABLES = "with tables"


def where(keys: int, events: int) -> str:
    return f"{short(keys)} keys, {short(events)} events"


def of_engine(keys: int, engine: str, epochs: list[dict[str, Any]]) -> Found:
    """Of the epochs over one number of keys, the restart if there was one, and the peak memory."""
    found: Found = {}
    for events in series_of({"tidegate": epochs}):
        kinds = {kind: [epoch[kind] for epoch in warm(epochs, events)] for kind in ("seconds", "processors")}
        found[where(keys, events)] = {engine: kinds}
    if any(epoch["phase"] == "restart" for epoch in epochs):
        first = restart(epochs)
        once = {"seconds": [first["since_start"]], "processors": [first["processors_since_start"]]}
        found[f"{short(keys)} keys, restart to first epoch"] = {engine: once}
    found[f"{short(keys)} keys, peak memory"] = {engine: {"bytes": [peak(epochs)]}}
    return found


def series(found: dict[str, Any]) -> Series:
    """Of all scenes that were measured."""
    all_of: Found = {}
    for result in found.get("epochs", []):
        for engine in ("tidegate", "streaming"):
            merge(all_of, of_engine(result["keys"], engine, result[engine]))
    for judged in found.get("tables", []):
        for events, costs in judged["costs"].items():
            sides = {"tidegate": costs["with_tables"], "streaming": costs["streaming"]}
            all_of[f"{where(judged['keys'], events)}, {WITH_TABLES}"] = _kinds_of(sides)
            all_of[f"{where(judged['keys'], events)}, in turns with those {WITH_TABLES}"] = _kinds_of(
                {"tidegate": costs["without_tables"]}
            )
    if windowed := found.get("windowed counts"):
        all_of["windowed count"] = _kinds_of(windowed)
    if empty := found.get("empty checkpoints"):
        all_of["empty checkpoint with judged tables"] = _kinds_of({"tidegate": empty})
    if fixed_cost := found.get("fixed cost"):
        all_of["fixed cost"] = {"tidegate": {"seconds": fixed_cost}}
    for scene in ("emitted rows", "state that ends"):
        if turns := found.get(scene):
            all_of[f"epoch with {scene}"] = {"tidegate": {"seconds": turns[1]}}
    if back := found.get("the way back"):
        for step in back["rounds"][0]:
            all_of[f"the way back: {step}"] = {
                "tidegate": {"seconds": [each[step]["seconds"] for each in back["rounds"]]}
            }
    return all_of


def shapes(found: dict[str, Any]) -> Series:
    """The series of the shapes that people write. They are kept apart from the others."""
    all_of: Found = {}
    for result in found.get("behind transforms", []):
        for engine in ("tidegate", "streaming"):
            behind = of_engine(result["keys"], engine, result[engine])
            merge(all_of, {f"{result['shape']}, {what}": sides for what, sides in behind.items()})
    for shape in found.get("shapes", []):
        all_of[shape["shape"]] = _kinds_of({engine: shape[engine] for engine in ("tidegate", "streaming")})
    return all_of


def merge(into: Found, more: Series) -> None:
    """The same things, measured by others as well."""
    for what, sides in more.items():
        for side, kinds in sides.items():
            into.setdefault(what, {})[side] = {kind: list(values) for kind, values in kinds.items()}


def _kinds_of(sides: dict[str, Iterable[Cost]]) -> dict[str, dict[str, list[float]]]:
    return {
        side: {kind: [cost[at] for cost in costs] for at, kind in enumerate(("seconds", "processors"))}
        for side, costs in sides.items()
    }
