"""A pipeline's checkpoints in pages, newest first. A page begins after a checkpoint id, never at a number of rows."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select, text

from tidegate.postgres import reads
from tidegate.postgres.rows import checkpoint_record
from tidegate.postgres.tables import checkpoints, figures
from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import is_sink
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.recovery.identity import Role
from tidegate.reading.checkpoint_answers import HistoryLine
from tidegate.reading.checkpoint_rows import Figures, checkpoint_fields, dag_run_of
from tidegate.reading.dags import escape_like
from tidegate.reading.history_answers import History, HistoryFilter
from tidegate.reading.standing import standing_of

_HELD = "HELD"
_MOST = 1000
FIGURE_COLUMNS = tuple(figures.c[name] for name in Figures.__slots__)

_VERDICTS = text("""
SELECT checkpoint_id, bool_and(coalesce(success, false)) AS verdict FROM tidegate.verdicts
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) GROUP BY checkpoint_id
""")
# Figures of checkpoints that have not completed. A figure that a subtask did not report is -1.
_REPORTED = text("""
SELECT checkpoint_id, coalesce(sum(greatest(processed_bytes, 0)), 0)::bigint AS processed_data,
    coalesce(sum(greatest(persisted_bytes, 0)), 0)::bigint AS persisted_data,
    coalesce(sum(greatest(rows_in, 0)) FILTER (WHERE operator_id NOT LIKE '%-sink'), 0)::bigint AS rows_in,
    coalesce(sum(greatest(rows_out, 0)) FILTER (WHERE operator_id LIKE '%-sink'), 0)::bigint AS rows_out,
    max(alignment_duration) AS alignment_duration
FROM tidegate.subtasks
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) GROUP BY checkpoint_id
""")
# As above, for checkpoints that are rolled up. The largest of each figure is the third of its spread.
_ROLLED_UP = text("""
SELECT checkpoint_id, sum(processed_data)::bigint AS processed_data, sum(persisted_data)::bigint AS persisted_data,
    coalesce(sum(rows_in) FILTER (WHERE operator_id NOT LIKE '%-sink'), 0)::bigint AS rows_in,
    coalesce(sum(rows_out) FILTER (WHERE operator_id LIKE '%-sink'), 0)::bigint AS rows_out,
    max(spreads[24])::bigint AS alignment_duration
FROM tidegate.folded_operators
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) GROUP BY checkpoint_id
""")


def page(
    connection: Connection,
    pipeline_id: str,
    wanted: HistoryFilter,
    before: int | None = None,
    limit: int = 50,
    *,
    now: datetime,
) -> History:
    """See `Readings.history`."""
    limit = max(1, min(limit, _MOST))
    condition = and_(checkpoints.c.pipeline_id == pipeline_id, *_conditions(pipeline_id, wanted))
    if before is not None:
        condition = and_(condition, checkpoints.c.checkpoint_id < before)
    newest = select(checkpoints).where(condition).order_by(checkpoints.c.checkpoint_id.desc()).limit(limit + 1)
    found = [checkpoint_record(row) for row in connection.execute(newest).mappings()]
    shown = found[:limit]
    rows = history_rows(connection, pipeline_id, shown, now)
    return History(history=tuple(rows), next_before=shown[-1].checkpoint_id if len(found) > limit else None)


def history_rows(
    connection: Connection, pipeline_id: str, found: Collection[CheckpointRecord], now: datetime
) -> list[HistoryLine]:
    """Return each record with its figures, verdict and DAG run."""
    ids = [record.checkpoint_id for record in found]
    figures_by_id = figures_of(connection, pipeline_id, ids)
    parameters = {"pipeline_id": pipeline_id, "checkpoint_ids": ids}
    verdicts = {row.checkpoint_id: row.verdict for row in connection.execute(_VERDICTS, parameters)}
    sources = sources_of(connection, pipeline_id)
    return [
        HistoryLine(
            **checkpoint_fields(
                record, counted(record, figures_by_id.get(record.checkpoint_id, Figures()), sources), standing
            ),
            verdict=verdicts.get(record.checkpoint_id),
            held=standing.held,
            dag_run=dag_run_of(record),
        )
        for record in found
        for standing in (standing_of(record, now),)
    ]


def sources_of(connection: Connection, pipeline_id: str) -> frozenset[str]:
    """Return the names of the pipeline's recorded sources."""
    return frozenset(
        endpoint.name for endpoint in reads.endpoints_of(connection, pipeline_id) if endpoint.role is Role.SOURCE
    )


def counted(record: CheckpointRecord, figures: Figures, sources: Collection[str]) -> Figures:
    """Return the figures, without `rows_in` if it is unknown.

    Operators count incoming rows. If a pipeline has only sources and sinks, the number of rows read is unknown.
    """
    operators = [plan.operator_id for plan in record.operators]
    if operators and all(is_sink(name) or name in sources for name in operators):
        return replace(figures, rows_in=-1)
    return figures


def figures_of(connection: Connection, pipeline_id: str, checkpoint_ids: Collection[int]) -> dict[int, Figures]:
    """Return the totals of completed checkpoints, and of the others the figures that were reported so far."""
    columns = (figures.c.checkpoint_id, *FIGURE_COLUMNS)
    summed = select(*columns).where(
        figures.c.pipeline_id == pipeline_id, figures.c.checkpoint_id.in_(list(checkpoint_ids))
    )
    found = {id_: Figures(*values) for id_, *values in connection.execute(summed)}
    for statement in (_REPORTED, _ROLLED_UP):
        if rest := [id_ for id_ in checkpoint_ids if id_ not in found]:
            reported = connection.execute(statement, {"pipeline_id": pipeline_id, "checkpoint_ids": rest})
            found |= {id_: Figures(*values) for id_, *values in reported}
    return found


def _conditions(pipeline_id: str, wanted: HistoryFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.statuses:
        conditions.append(or_(*(_has_status(status) for status in sorted(wanted.statuses))))
    if wanted.kinds:
        conditions.append(checkpoints.c.kind.in_([kind.value for kind in sorted(wanted.kinds)]))
    if CheckpointKind.CHECKPOINT not in wanted.kinds and wanted.kinds:
        conditions.append(checkpoints.c.kind != CheckpointKind.CHECKPOINT.value)  # these have an index
    if wanted.since is not None:
        conditions.append(checkpoints.c.triggered_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(checkpoints.c.triggered_at < wanted.until)
    if wanted.text:
        conditions.append(_says(pipeline_id, wanted.text))
    return conditions


def _has_status(status: str) -> ColumnElement[bool]:
    if status == _HELD:
        return (checkpoints.c.status == Status.IN_PROGRESS.value) & (checkpoints.c.phase == _HELD)
    if status == "ABANDONED":
        return checkpoints.c.abandoned_by.is_not(None)
    if status == Status.COMPLETED:
        return checkpoints.c.status.in_(sorted(COMMITTED))
    if status not in set(Status):
        known = ", ".join(sorted({*Status, _HELD, "ABANDONED"}))
        raise IllegalRequestError(f"There is no status {status!r}. Nothing was changed. Give one of {known}.")
    return checkpoints.c.status == status


def _says(pipeline_id: str, part: str) -> ColumnElement[bool]:
    """Match a request id or a savepoint's name: two searches, each on its own index."""
    if "\0" in part:
        return false()  # no text in the database contains one
    pattern = f"%{escape_like(part.lower())}%"
    of_pipeline = checkpoints.alias("searched")
    same = of_pipeline.c.pipeline_id == pipeline_id
    by_request = select(of_pipeline.c.checkpoint_id).where(same, func.lower(of_pipeline.c.request_id).like(pattern))
    by_name = select(of_pipeline.c.checkpoint_id).where(
        same, of_pipeline.c.kind != CheckpointKind.CHECKPOINT.value, func.lower(of_pipeline.c.name).like(pattern)
    )
    return checkpoints.c.checkpoint_id.in_(by_request.union_all(by_name))


def neighbours(connection: Connection, pipeline_id: str, around: int) -> tuple[int | None, int | None]:
    """Return the ids of the checkpoints before and after this one."""
    id_ = checkpoints.c.checkpoint_id
    older: Any = select(func.max(id_)).where(checkpoints.c.pipeline_id == pipeline_id, id_ < around)
    newer: Any = select(func.min(id_)).where(checkpoints.c.pipeline_id == pipeline_id, id_ > around)
    return connection.execute(older).scalar_one(), connection.execute(newer).scalar_one()
