"""Verdicts over time: the validated targets, and each expectation's observations as a series."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.reading.checkpoint_answers import Hold
from tidegate.reading.checkpoint_rows import hold_of
from tidegate.reading.history_answers import (
    ExpectationSeries,
    HoldAt,
    Observation,
    QualityHistory,
    ValidatedTarget,
    VerdictLine,
)
from tidegate.reading.need import utc
from tidegate.reading.standing import standing_of

_MOST = 1000
_LONGEST_TEXT = 200

# This takes one step in the index for each target and suite, for any number of verdicts.
_TARGETS = text("""
WITH RECURSIVE targets AS (
    (SELECT target, suite FROM tidegate.verdicts WHERE pipeline_id = :pipeline_id ORDER BY target, suite LIMIT 1)
    UNION ALL
    SELECT next.target, next.suite FROM targets, LATERAL (
        SELECT v.target, v.suite FROM tidegate.verdicts v
        WHERE v.pipeline_id = :pipeline_id AND (v.target, v.suite) > (targets.target, targets.suite)
        ORDER BY v.target, v.suite LIMIT 1) next
)
SELECT latest.*, coalesce(c.validated_at, c.failed_at, c.acknowledged_at, c.triggered_at) AS at,
    c.held_at, c.held_until, c.held_message, c.decision, c.decided_at, c.decided_by,
    c.decision_comment, c.status = 'IN_PROGRESS' AND c.phase = 'HELD' AND c.held_until > :now AS waits
FROM targets, LATERAL (
    SELECT checkpoint_id, target, suite, success, evaluated, failed, error, docs_path, pipeline_id
    FROM tidegate.verdicts v
    WHERE v.pipeline_id = :pipeline_id AND v.target = targets.target AND v.suite = targets.suite
    ORDER BY v.checkpoint_id DESC LIMIT 1) latest
JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
ORDER BY target, suite
""")
# Samples and rows are left out; they may be large.
_VERDICTS = text("""
SELECT v.checkpoint_id, v.target, v.suite, v.success, v.evaluated, v.failed, v.error, v.docs_path,
    coalesce(c.validated_at, c.failed_at, c.acknowledged_at, c.triggered_at) AS at,
    c.held_at, c.held_until, c.held_message, c.decision, c.decided_at, c.decided_by,
    c.decision_comment, c.status = 'IN_PROGRESS' AND c.phase = 'HELD' AND c.held_until > :now AS waits,
    (SELECT jsonb_agg(jsonb_build_object('type', r -> 'type', 'kwargs', r -> 'kwargs', 'success', r -> 'success',
        'observed', r -> 'observed', 'element_count', r -> 'element_count',
        'unexpected_count', r -> 'unexpected_count', 'unexpected_percent', r -> 'unexpected_percent',
        'error', r -> 'error') ORDER BY place)
     FROM jsonb_array_elements(v.results) WITH ORDINALITY AS each (r, place)
     WHERE jsonb_typeof(r) = 'object') AS results
FROM tidegate.verdicts v JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
WHERE v.pipeline_id = :pipeline_id AND v.target = :target AND v.suite = :suite
    AND (CAST(:before AS bigint) IS NULL OR v.checkpoint_id < :before)
ORDER BY v.checkpoint_id DESC LIMIT :limit
""")


def validated_targets(connection: Connection, pipeline_id: str, now: datetime) -> tuple[ValidatedTarget, ...]:
    """See `Readings.validated_targets`."""
    rows = connection.execute(_TARGETS, {"pipeline_id": pipeline_id, "now": now})
    return tuple(ValidatedTarget(target=row.target, suite=row.suite, latest=_line(row)) for row in rows)


def quality_history(
    connection: Connection, pipeline_id: str, target: str, suite: str, before: int | None, limit: int, now: datetime
) -> QualityHistory:
    """See `Readings.quality`."""
    parameters = {"pipeline_id": pipeline_id, "target": target, "suite": suite, "before": before, "now": now}
    rows = connection.execute(_VERDICTS, parameters | {"limit": max(1, min(limit, _MOST))}).all()
    return QualityHistory(
        target=target, suite=suite, verdicts=tuple(_line(row) for row in rows), expectations=_series(rows)
    )


def _line(row: Row[Any]) -> VerdictLine:
    fields = {name: value for name, value in row._mapping.items() if name in VerdictLine.model_fields}
    return VerdictLine(**fields | {"at": _at(row.at), "hold": _still(hold_of(row), row.waits)})


def hold_at(record: CheckpointRecord, now: datetime) -> HoldAt | None:
    """Return the hold of a checkpoint; None if it never waited for approval."""
    return _still(hold_of(record), standing_of(record, now).held)


def _still(hold: Hold | None, waits: bool) -> HoldAt | None:
    return None if hold is None else HoldAt(**dict(hold), waits=waits)


def _at(at: datetime) -> datetime:
    moment = utc(at)
    assert moment is not None
    return moment


def _series(rows: Sequence[Row[Any]]) -> tuple[ExpectationSeries, ...]:
    """Return one series for each expectation, by type and arguments, in the order of the newest verdict."""
    named: dict[str, Mapping[str, Any]] = {}
    observed: dict[str, list[Observation]] = {}
    for row in rows:
        for result in row.results or []:
            kwargs = result.get("kwargs") if isinstance(result.get("kwargs"), dict) else {}
            key = json.dumps([result.get("type"), kwargs], sort_keys=True)
            named.setdefault(key, {"type": str(result.get("type")), "kwargs": kwargs})
            observed.setdefault(key, []).append(_observation(row, result))
    return tuple(
        ExpectationSeries(key=key, **name, observations=tuple(reversed(observed[key]))) for key, name in named.items()
    )


def _observation(row: Row[Any], result: Mapping[str, Any]) -> Observation:
    seen = result.get("observed")
    return Observation(
        checkpoint_id=row.checkpoint_id,
        at=_at(row.at),
        success=result.get("success"),
        observed=_number(seen),
        observed_text=None if seen is None else _text(seen),
        unexpected_count=_whole(result.get("unexpected_count")),
        unexpected_percent=_number(result.get("unexpected_percent")),
        element_count=_whole(result.get("element_count")),
        error=result.get("error"),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    text_ = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text_ if len(text_) <= _LONGEST_TEXT else f"{text_[: _LONGEST_TEXT - 1]}…"
