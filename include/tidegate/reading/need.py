"""Every pipeline in one line, the most urgent first. One statement reads all of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, text

from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.names import operator_of_sink
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.steps.committing import COMMIT_LEASE
from tidegate.reading.lag_answers import Lag
from tidegate.reading.pipeline_answers import Need, PipelineLine, PipelineList

#: The time that a delivery may take before its pipeline is listed as in need of attention.
_GRACE = timedelta(minutes=1)
_MOST = 1000

# Each LATERAL is one or a few steps in an index. A pipeline is listed once a request for it has arrived.
_LINES = text("""
WITH seen AS (
    SELECT pipeline_id, array_agg(dag_id ORDER BY dag_id) AS dags FROM tidegate.pipeline_dags GROUP BY pipeline_id
), facts AS MATERIALIZED (
    SELECT p.pipeline_id, p.status, p.since, p.message, coalesce(seen.dags, '{}') AS dags,
        latest.checkpoint_id AS latest_completed, latest.completed_at, coalesce(latest.state_size, -1) AS state_size,
        coalesce(latest.duration, -1) AS end_to_end_duration,
        progress.in_progress, progress.held, progress.overdue, failed.number AS failures_in_a_row,
        failed.reason AS last_failure,
        validated.checkpoint_id AS validated_checkpoint, validated.verdict AS last_verdict, doubt.number AS in_doubt,
        CASE WHEN cardinality(progress.held) > 0 THEN :decision
            WHEN p.status = 'FAILED' THEN :resume
            WHEN p.status IN ('FINISHED', 'CANCELLED') THEN :ended
            WHEN progress.overdue > 0 OR failed.number > 0 THEN :look
            WHEN doubt.since < :now - :grace AND coalesce(p.committer_seen_at < :now - :lease, true)
                THEN :delivery
            WHEN p.status = 'RUNNING' THEN :nothing
            ELSE :waits
        END AS need
    FROM tidegate.pipelines p
    LEFT JOIN seen USING (pipeline_id)
    LEFT JOIN LATERAL (
        SELECT checkpoint_id, completed_at, state_size,
            greatest(0, round(extract(epoch FROM acknowledged_at - triggered_at) * 1000))::bigint AS duration
        FROM tidegate.checkpoints c
        WHERE c.pipeline_id = p.pipeline_id AND status = 'COMPLETED' AND abandoned_by IS NULL
        ORDER BY checkpoint_id DESC LIMIT 1) latest ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS in_progress, count(*) FILTER (WHERE ends_at <= :now) AS overdue,
            coalesce(array_agg(checkpoint_id ORDER BY checkpoint_id) FILTER (WHERE phase = 'HELD' AND ends_at > :now),
                '{}') AS held
        FROM tidegate.checkpoints c,
            LATERAL (SELECT CASE phase WHEN 'HELD' THEN held_until ELSE deadline END AS ends_at) until
        WHERE c.pipeline_id = p.pipeline_id AND status = 'IN_PROGRESS') progress
    CROSS JOIN LATERAL (
        SELECT count(*) AS number, (array_agg(failure_reason ORDER BY checkpoint_id DESC))[1] AS reason
        FROM tidegate.checkpoints c
        WHERE c.pipeline_id = p.pipeline_id AND status = 'FAILED' AND kind = 'CHECKPOINT'
            AND failure_reason = ANY (CAST(:faults AS text[]))
            AND c.checkpoint_id > greatest(coalesce(latest.checkpoint_id, 0), p.forgiven_until)) failed
    CROSS JOIN LATERAL (
        SELECT count(*) AS number, min(completed_at) AS since
        FROM tidegate.checkpoints c
        WHERE c.pipeline_id = p.pipeline_id
            AND completed_at IS NOT NULL AND notified_at IS NULL AND abandoned_by IS NULL
            AND (committed_sinks = '[]' OR EXISTS (SELECT FROM jsonb_to_recordset(operators) AS o (operator_id text)
                WHERE o.operator_id LIKE :sink AND NOT committed_sinks ? o.operator_id))) doubt
    LEFT JOIN LATERAL (
        SELECT checkpoint_id, bool_and(coalesce(success, false)) AS verdict FROM tidegate.verdicts v
        WHERE v.pipeline_id = p.pipeline_id AND checkpoint_id = (
            SELECT max(checkpoint_id) FROM tidegate.verdicts w WHERE w.pipeline_id = p.pipeline_id)
        GROUP BY checkpoint_id) validated ON true
    WHERE (:one IS NULL AND (p.last_checkpoint_id > 0 OR p.status <> 'CREATED') OR p.pipeline_id = :one)
        AND (CAST(:readable AS text[]) IS NULL OR seen.dags IS NULL OR seen.dags && CAST(:readable AS text[]))
        AND (:text = '' OR strpos(lower(p.pipeline_id), lower(:text)) > 0)
)
SELECT shown.*, (SELECT count(*) FROM facts) AS total, behind.lag
FROM (
    SELECT * FROM facts
    WHERE :after_need < 0 OR (need, pipeline_id) > (:after_need, :after)
    ORDER BY need, pipeline_id LIMIT :limit) shown
LEFT JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(unit, pending, bytes, polled_at) ORDER BY unit) AS lag FROM (
        SELECT unit, sum(pending) AS pending, CASE WHEN min(bytes) < 0 THEN -1 ELSE sum(bytes) END AS bytes,
            min(polled_at) AS polled_at
        FROM tidegate.source_lag s WHERE s.pipeline_id = shown.pipeline_id GROUP BY unit) by_unit) behind ON true
ORDER BY need, pipeline_id
""")


def list_pipelines(
    connection: Connection,
    now: datetime,
    readable: frozenset[str] | None = None,
    after: str | None = None,
    limit: int = 50,
    text_: str = "",
) -> PipelineList:
    """See `Readings.pipelines`.

    Raises:
        IllegalRequestError: If `after` is not a `next_key`.
    """
    need, pipeline_id = (-1, "") if after is None else _place(after)
    limit = max(1, min(limit, _MOST))
    found = _ask(connection, now, None, readable, need, pipeline_id, limit + 1, text_)
    lines = tuple(_line(row, now) for row in found[:limit])
    total = int(found[0]["total"]) if found else _ask_total(connection, now, readable, text_)
    return PipelineList(lines=lines, next_key=_key(lines[-1]) if len(found) > limit else None, total=total)


def one_pipeline(connection: Connection, now: datetime, pipeline_id: str) -> PipelineLine | None:
    found = _ask(connection, now, pipeline_id, None, -1, "", 1, "")
    return _line(found[0], now) if found else None


def _ask(
    connection: Connection,
    now: datetime,
    one: str | None,
    readable: frozenset[str] | None,
    need: int,
    after: str,
    limit: int,
    text_: str,
) -> Sequence[RowMapping]:
    values: dict[str, Any] = {"now": now, "one": one, "after_need": need, "after": after, "limit": limit, "text": text_}
    values |= {level.name.lower(): int(level) for level in Need}
    values |= {"grace": _GRACE, "lease": COMMIT_LEASE, "sink": operator_of_sink("%")}
    values["faults"] = [reason.name for reason in FailureReason if reason.is_fault]
    values["readable"] = None if readable is None else sorted(readable)
    return connection.execute(_LINES, values).mappings().all()


def _ask_total(connection: Connection, now: datetime, readable: frozenset[str] | None, text_: str) -> int:
    """Read the total by itself: after the last page there is no line to read it from."""
    found = _ask(connection, now, None, readable, -1, "", 1, text_)
    return int(found[0]["total"]) if found else 0


def _key(line: PipelineLine) -> str:
    return f"{line.need:d}:{line.pipeline_id}"


def _place(key: str) -> tuple[int, str]:
    need, _, pipeline_id = key.partition(":")
    if need not in {f"{level:d}" for level in Need} or not pipeline_id or "\0" in pipeline_id:
        raise IllegalRequestError(
            f"{key!r} is not a position in the list of pipelines. Nothing was changed. Give next_key of the previous "
            "page, or none for the first page."
        )
    return int(need), pipeline_id


def _line(row: RowMapping, now: datetime) -> PipelineLine:
    fields = {name: row[name] for name in PipelineLine.model_fields if name in row}
    completed_at = utc(row["completed_at"])
    fields["lag"] = tuple(_lag(*of_unit) for of_unit in row["lag"] or ())
    fields["age"] = -1 if completed_at is None else max(0, (now - completed_at) // timedelta(milliseconds=1))
    return PipelineLine(**fields | {"since": utc(row["since"]), "completed_at": completed_at})


def _lag(unit: str, pending: int, size: int, polled_at: str) -> Lag:
    at = datetime.fromisoformat(polled_at).astimezone(UTC)
    return Lag(pending=pending, unit=unit, bytes=size, polled_at=at)


def utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
