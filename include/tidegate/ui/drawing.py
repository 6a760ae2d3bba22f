"""The layout of a pipeline's graph, and of the spans of a checkpoint's time line. Pure; templates draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.reading.checkpoint_answers import PhaseSpan
from tidegate.ui.formatting import between
from tidegate.ui.wording import SPANS

WIDTH, HEIGHT, GAP_X, GAP_Y = 212, 92, 52, 18


@dataclass(frozen=True, slots=True)
class Box:
    key: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph with coordinates. `edges` are paths, from the right side of a box to the left side of another."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    width: int
    height: int


def draw_graph(inputs: Mapping[str, Sequence[str]]) -> Drawing:
    """Place each vertex one column right of the last one it reads from. Inputs that are not vertices, and those that
    would close a circle, are left out, because the graph comes from files.
    """
    column: dict[str, int] = {}

    def place(key: str, above: frozenset[str]) -> int:
        if key not in column:
            valid = [one for one in inputs[key] if one in inputs and one not in above | {key}]
            column[key] = max((place(one, above | {key}) + 1 for one in valid), default=0)
        return column[key]

    for key in inputs:
        place(key, frozenset())
    rows: dict[int, list[str]] = {}
    for index in sorted(set(column.values())):
        here = [key for key in inputs if column[key] == index]
        rows[index] = sorted(here, key=lambda key: _middle(inputs[key], rows))
    tallest = max((len(keys) for keys in rows.values()), default=0)
    boxes: dict[str, Box] = {}
    for index, keys in rows.items():
        down = (tallest - len(keys)) * (HEIGHT + GAP_Y) // 2
        for row, key in enumerate(keys):
            boxes[key] = Box(key, index * (WIDTH + GAP_X) + 1, down + row * (HEIGHT + GAP_Y) + 1)
    edges = [
        _edge(boxes[before], boxes[key])
        for key in inputs
        for before in inputs[key]
        if before in boxes and column[before] < column[key]
    ]
    width = max((box.x for box in boxes.values()), default=0) + WIDTH + 1
    return Drawing(tuple(boxes.values()), tuple(edges), width, max(tallest, 1) * (HEIGHT + GAP_Y) - GAP_Y + 2)


def by_role(roles: Mapping[str, str]) -> dict[str, list[str]]:
    """Return inputs that put sources before operators and these before sinks, for a graph without recorded inputs."""
    kinds = [role for role in ("source", "operator", "sink") if role in roles.values()]
    before = dict(zip(kinds[1:], kinds, strict=False))
    return {key: [other for other, known in roles.items() if known == before.get(role)] for key, role in roles.items()}


def _middle(inputs: Sequence[str], rows: Mapping[int, Sequence[str]]) -> float:
    """Return the average row of a vertex's inputs. Edges cross less if vertices are in this order."""
    places = [keys.index(one) for keys in rows.values() for one in inputs if one in keys]
    return sum(places) / len(places) if places else 0


def _edge(before: Box, after: Box) -> str:
    x1, y1 = before.x + WIDTH, before.y + HEIGHT // 2
    x2, y2 = after.x - 6, after.y + HEIGHT // 2
    bend = max(20, (x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


@dataclass(frozen=True, slots=True)
class Span:
    """A span of the time line. `x` and `width` are thousandths of the whole. It `lasts` if it has not ended yet; a
    `moment` has no length.
    """

    phase: str
    label: str
    fill: str
    began_at: datetime
    duration: int
    x: float
    width: float
    lasts: bool
    moment: bool


#: The least width, so that a span without length can be seen.
_LEAST = 4.0


def draw_spans(phases: Sequence[PhaseSpan], now: datetime) -> tuple[Span, ...]:
    """Place the spans side by side, as wide as they lasted; one that is only a moment has the least width."""
    ends = [phase.ended_at or (now if _lasts(phase) else phase.began_at) for phase in phases]
    durations = [between(phase.began_at, end) for phase, end in zip(phases, ends, strict=True)]
    total = sum(durations) or 1
    free = 1000 - _LEAST * len(phases)
    spans, x = [], 0.0
    for phase, length in zip(phases, durations, strict=True):
        width = _LEAST + free * length / total
        label, fill = SPANS.get(phase.phase, (phase.phase, "span-work"))
        spans.append(Span(phase.phase, label, fill, phase.began_at, length, x, width, _lasts(phase), _is_moment(phase)))
        x += width
    return tuple(spans)


def _lasts(phase: PhaseSpan) -> bool:
    return phase.ended_at is None and not _is_moment(phase)


def _is_moment(phase: PhaseSpan) -> bool:
    return phase.phase in ("NOTIFIED", "FAILED")
