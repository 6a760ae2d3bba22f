"""The pages about all pipelines and about one. Each asks `Readings` one or two questions, and renders the answers."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from tidegate.documents.audit import audit_line
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    StateIntegrityError,
    StorageError,
    StoreUnavailableError,
)
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.reading.checkpoint_answers import Checkpoint
from tidegate.reading.history_answers import ExpectationSeries, HistoryFilter, Latest, Observation, Point
from tidegate.reading.pipeline_answers import FilesRead, KeyLookup, Vertex
from tidegate.reading.readings import Readings
from tidegate.ui import formatting
from tidegate.ui.asking import Key, ReadingsDep
from tidegate.ui.auth import ReadableDags, RightsDep
from tidegate.ui.dag_runs import StartableDep
from tidegate.ui.drawing import Drawing, by_role, draw_graph
from tidegate.ui.offers import offers_of_pipeline
from tidegate.ui.schedules import NextRunsDep
from tidegate.ui.shared import PageRoutes
from tidegate.ui.shell import page
from tidegate.ui.wording import FIGURES, KINDS

routes = PageRoutes()

STATUSES = ("IN_PROGRESS", "HELD", "COMPLETED", "FAILED", "SUBSUMED", "DISCARDED", "ABANDONED")
#: The figures that are drawn over time, in this order.
DRAWN = ("end_to_end_duration", "checkpointed_size", "state_size", "rows_in", "alignment_duration", "start_delay")
_LATEST = 8
_AUDITED = 50

Text = Annotated[str, Query(max_length=200)]
CheckpointId = Annotated[int | None, Query(ge=1, le=2**62)]


@routes.get("/")
def pipelines(
    request: Request,
    readings: ReadingsDep,
    readable: ReadableDags,
    next_runs: NextRunsDep,
    text: Text = "",
    after: Text = "",
) -> HTMLResponse:
    listed = readings.pipelines(readable, after or None, text=text)
    known = next_runs({dag_id for line in listed.lines for dag_id in line.dags})
    return page(request, "pipelines.html", listed=listed, text=text, after=after, next_runs=known, now=now())


@routes.get("/pipelines/{pipeline}")
def overview(
    request: Request,
    readings: ReadingsDep,
    rights: RightsDep,
    startable: StartableDep,
    next_runs: NextRunsDep,
    pipeline: str,
) -> HTMLResponse:
    found = readings.overview(pipeline)
    recent = readings.history(pipeline, limit=_LATEST).history
    running = readings.history(pipeline, HistoryFilter(frozenset({"IN_PROGRESS"})), limit=5).history
    vertices = {vertex.operator_id: vertex for vertex in found.vertices}
    return page(
        request, "overview.html", pipeline=pipeline, tab="", overview=found, recent=recent, running=running, now=now(),
        vertices=vertices, drawing=_drawing(vertices),
        positions={key: _position(one) for key, one in vertices.items()},
        offers=offers_of_pipeline(found, running, now(), startable), rights=rights,
        next_runs=next_runs(found.line.dags),
    )  # fmt: skip


def _drawing(vertices: Mapping[str, Vertex]) -> Drawing:
    """Lay out the graph, without arrows before the first checkpoint has completed: its edges are not on record until
    then.
    """
    if all(vertex.inputs is None for vertex in vertices.values()):
        placed = draw_graph(by_role({key: vertex.role for key, vertex in vertices.items()}))
        return replace(placed, edges=())
    return draw_graph({key: vertex.inputs or () for key, vertex in vertices.items()})


def _position(vertex: Vertex) -> str:
    """Format the position of a source, short enough for its box."""
    recorded = [position for position in vertex.positions if position is not None]
    if not recorded:
        return ""
    return formatting.pairs(recorded[0]) if len(vertex.positions) == 1 else f"{len(recorded)} positions"


@routes.get("/pipelines/{pipeline}/history")
def history(
    request: Request,
    readings: ReadingsDep,
    pipeline: str,
    status: Text = "",
    kind: Text = "",
    text: Text = "",
    since: Text = "",
    before: CheckpointId = None,
) -> HTMLResponse:
    """Show the history. A value that is not a status, kind or day counts as none, so that an edited address still shows
    a page.
    """
    kinds, day = frozenset(one for one in CheckpointKind if one.value == kind), _day(since)
    wanted = HistoryFilter(frozenset({status} & set(STATUSES)), kinds, text, day)
    return _tab(
        request, readings, "history", pipeline, statuses=STATUSES, kinds=KINDS, status=status, kind=kind, text=text,
        since=f"{day:%Y-%m-%d}" if day else "", before=before, history=readings.history(pipeline, wanted, before),
    )  # fmt: skip


def _day(text: str) -> datetime | None:
    """Return the start of a day in UTC."""
    with suppress(ValueError):
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    return None


@routes.get("/pipelines/{pipeline}/summary")
def summary(request: Request, readings: ReadingsDep, pipeline: str) -> HTMLResponse:
    found, points = readings.summary(pipeline), readings.series(pipeline)
    return _tab(request, readings, "summary", pipeline, summary=found, latest=_latest(found.latest), now=now(),
        charts=_charts(points), first=points[0].first_id if points else None,
        last=points[-1].last_id if points else None,
    )  # fmt: skip


def _latest(latest: Latest) -> list[tuple[str, Checkpoint | None, datetime | None]]:
    completed, failed, savepoint, restored = latest.completed, latest.failed, latest.savepoint, latest.restored
    return [
        ("Completed", completed, completed.completed_at if completed else None),
        ("Failed", failed, failed.failed_at if failed else None),
        ("Savepoint", savepoint, savepoint.completed_at if savepoint else None),
        ("Restore", restored.checkpoint if restored else None, restored.restored_at if restored else None),
    ]


def _charts(points: Sequence[Point]) -> list[tuple[str, str, str]]:
    """Return title, unit and data of each chart: the average, and the maximum where points stand for several
    checkpoints.
    """
    several = any(point.count > 1 for point in points)
    charts = []
    for name in DRAWN:
        reported = [point for point in points if name in point.values and point.values[name].max >= 0]
        if len(reported) < 2:
            continue
        lines = [
            {"label": "Average", "role": "average", "values": [round(one.values[name].avg, 1) for one in reported]}
        ]
        if several:
            lines.append({"label": "Most", "role": "most", "values": [one.values[name].max for one in reported]})
        charts.append((*FIGURES[name], _drawn([one.at for one in reported], lines)))
    return charts


def _drawn(at: Sequence[datetime], lines: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"x": [round(one.timestamp(), 3) for one in at], "lines": lines}, separators=(",", ":"))


@routes.get("/pipelines/{pipeline}/configuration")
def configuration(request: Request, readings: ReadingsDep, pipeline: str) -> HTMLResponse:
    found = readings.configuration(pipeline)
    return _tab(request, readings, "configuration", pipeline, configuration=found)


@routes.get("/pipelines/{pipeline}/sources")
def sources(
    request: Request,
    readings: ReadingsDep,
    pipeline: str,
    checkpoint: CheckpointId = None,
    source: Text = "",
    split: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
) -> HTMLResponse:
    """Show the sources, and the files read of the selected split."""
    found = readings.sources(pipeline, checkpoint)
    shown = checkpoint or _latest_completed(readings, pipeline)
    files, problem = _files_read(readings, pipeline, source, split, checkpoint) if source else (None, None)
    return _tab(request, readings, "sources", pipeline, sources=found, checkpoint_id=shown, files=files,
        problem=problem, opened=(source, split),
    )  # fmt: skip


def _files_read(
    readings: Readings, pipeline: str, source: str, split: int, checkpoint: int | None
) -> tuple[FilesRead | None, CheckpointError | None]:
    """Return the files, or the error if they cannot be read."""
    try:
        return readings.files_read(pipeline, source, split, checkpoint), None
    except StoreUnavailableError:
        raise
    except CheckpointError as error:
        return None, error


@routes.get("/pipelines/{pipeline}/state")
def state(
    request: Request,
    readings: ReadingsDep,
    pipeline: str,
    key: Key,
    checkpoint: CheckpointId = None,
    operator: Text = "",
) -> HTMLResponse:
    """Show the state, with a form to look up a key of the selected operator."""
    found = readings.state(pipeline, checkpoint)
    shown = next((one for one in found if one.operator_id == operator), found[0] if len(found) == 1 else None)
    at = shown and (pipeline, shown.operator_id, checkpoint)
    lookup, problem = _look_up(readings, *at, key) if at else (None, None)
    return _tab(request, readings, "state", pipeline, operators=found, shown=shown, lookup=lookup,
        problem=problem, unreadable=isinstance(problem, StorageError | StateIntegrityError | ConfigurationError),
        key=key or (), now=now(), checkpoint_id=checkpoint or _latest_completed(readings, pipeline),
    )  # fmt: skip


def _look_up(
    readings: Readings, pipeline: str, operator: str, checkpoint: int | None, key: Sequence[str | None] | None
) -> tuple[KeyLookup | None, CheckpointError | None]:
    """Return the key's row, or the error if it cannot be read, because the page has other parts to show."""
    try:
        return readings.key(pipeline, operator, checkpoint, key), None
    except StoreUnavailableError:
        raise
    except CheckpointError as error:
        if key is None:
            return None, error
        return _look_up(readings, pipeline, operator, checkpoint, None)[0], error


def _latest_completed(readings: ReadingsDep, pipeline: str) -> int | None:
    return readings.overview(pipeline).line.latest_completed


@routes.get("/pipelines/{pipeline}/tables")
def tables(request: Request, readings: ReadingsDep, pipeline: str) -> HTMLResponse:
    found, doubts = readings.tables(pipeline), readings.doubts(pipeline)
    return _tab(request, readings, "tables", pipeline, tables=found, doubts=doubts, now=now())


@routes.get("/pipelines/{pipeline}/quality")
def quality(
    request: Request, readings: ReadingsDep, pipeline: str, target: Text = "", suite: Text = ""
) -> HTMLResponse:
    """Show the requested target, else one whose latest verdict is not good."""
    targets = readings.validated_targets(pipeline)
    requested = [one for one in targets if (one.target, one.suite) == (target, suite)]
    worst = sorted(targets, key=lambda one: one.latest.success is True)
    chosen = next(iter([*requested, *worst]), None)
    found = chosen and readings.quality(pipeline, chosen.target, chosen.suite)
    charts = [_observed(one) for one in found.expectations if _can_be_drawn(one)] if found else []
    return _tab(request, readings, "quality", pipeline, targets=targets, quality=found, charts=charts,
        now=now(),
    )  # fmt: skip


def _can_be_drawn(series: ExpectationSeries) -> bool:
    return sum(1 for one in series.observations if _figure(one) is not None) > 1


def _figure(one: Observation) -> float | None:
    """Return the observed value if it is a number, else the number of unexpected values."""
    return one.observed if one.observed is not None else one.unexpected_count


def _observed(series: ExpectationSeries) -> tuple[str, str, str]:
    shown = [one for one in series.observations if _figure(one) is not None]
    observed = any(one.observed is not None for one in shown)
    lines = [
        {
            "label": "Observed" if observed else "Unexpected values",
            "role": "average",
            "values": [_figure(one) for one in shown],
        }
    ]
    if any(not one.success for one in shown):
        failed = [None if one.success else _figure(one) for one in shown]
        lines.append({"label": "Failed", "role": "failed", "values": failed})
    column = series.kwargs.get("column")
    title = f"{series.type} ({formatting.value(column)})" if column is not None else series.type
    return title, "value", _drawn([one.at for one in shown], lines)


@routes.get("/pipelines/{pipeline}/audit")
def audit(request: Request, readings: ReadingsDep, pipeline: str, before: CheckpointId = None) -> HTMLResponse:
    found = readings.audit(pipeline, before, _AUDITED + 1)
    lines = list(map(audit_line, found[:_AUDITED]))
    return _tab(request, readings, "audit", pipeline, records=lines, before=before, now=now(),
        next_before=found[_AUDITED - 1].number if len(found) > _AUDITED else None,
    )  # fmt: skip


def _tab(request: Request, readings: Readings, name: str, pipeline: str, **context: Any) -> HTMLResponse:
    """Render a page about one pipeline, with its status next to its name."""
    known = readings.pipeline(pipeline)
    return page(request, f"{name}.html", pipeline=pipeline, tab=name, known=known, **context)


def now() -> datetime:
    return datetime.now(UTC)
