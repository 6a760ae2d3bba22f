"""The parts of a checkpoint: operators with their subtasks, and subtasks and files in pages."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, Table, literal, select, tuple_

from tidegate.postgres.rollup import ROLLED_UP, SUMS
from tidegate.postgres.rows import HANDLE_COLUMNS, SUBTASK_COLUMNS, handle_record, subtask_records
from tidegate.postgres.tables import handles, subtasks
from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.names import is_sink
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskRecord
from tidegate.reading.answer import Handle
from tidegate.reading.checkpoint_answers import (
    Alignment,
    Durations,
    FileLine,
    FileList,
    SubtaskList,
    SubtaskSpread,
    Task,
    TaskSummary,
)
from tidegate.reading.checkpoint_rows import Figures, duration_of, in_flight, public_status, subtask_of

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

#: The figures of a subtask whose smallest, average and largest values are shown.
SUBTASK_FIGURES = (
    *("end_to_end_duration", "checkpointed_size", "state_size", "processed_data", "persisted_data"),
    *("sync_duration", "async_duration", "alignment_duration", "start_delay", "rows_in", "rows_out"),
)
_MOST = 1000

_PLACE = (handles.c.operator_id, handles.c.subtask_index, handles.c.ordinal)
_FILE = (*_PLACE, *(handles.c[name] for name in HANDLE_COLUMNS))


def tasks(connection: Connection, record: CheckpointRecord, sources: Collection[str]) -> list[Task]:
    """Return the operators in the order of the plan, upstream before downstream. `sources` are the recorded sources'
    names.
    """
    parameters = {"pipeline_id": record.pipeline_id, "checkpoint_ids": [record.checkpoint_id]}
    sums = connection.execute(SUMS, parameters).mappings().all() or connection.execute(ROLLED_UP, parameters).mappings()
    rows = {row["operator_id"]: row for row in sums}
    return [
        task_of(record, rows[plan.operator_id], plan.max_parallelism, sources)
        for plan in record.operators
        if plan.operator_id in rows
    ]


def task_of(record: CheckpointRecord, row: "RowMapping", max_parallelism: int, sources: Collection[str]) -> Task:
    """Return one operator, from the row that sums up its subtasks."""
    operator_id, acknowledged_at = row["operator_id"], row["latest"]
    summary = _summary(row["spreads"])
    source, complete = operator_id in sources or bool(row["positioned"]), row["acknowledged"] == row["number"]
    figures = Figures(
        row["processed_data"],
        row["persisted_data"],
        row["rows_in"] if summary.rows_in.max >= 0 else -1,
        row["rows_out"] if summary.rows_out.max >= 0 else -1,
    )
    return Task(
        id=operator_id,
        role="sink" if is_sink(operator_id) else "source" if source else "operator",
        parallelism=row["number"],
        max_parallelism=max_parallelism,
        status="COMPLETED" if complete else public_status(record.status),
        acknowledged_at=acknowledged_at,
        end_to_end_duration=duration_of(record, acknowledged_at),
        checkpointed_size=row["checkpointed_size"],
        state_size=row["state_size"],
        **in_flight(figures),
        num_subtasks=row["number"],
        num_acknowledged_subtasks=row["acknowledged"],
        num_finished_subtasks=row["finished"],
        attempt=row["attempt"],
        files=row["files"],
        unaligned_checkpoint=row["unaligned"],
        summary=summary,
    )


def _summary(values: Sequence[float]) -> TaskSummary:
    """Name the smallest, average and largest value of each figure; `values` are in the order of `SUBTASK_FIGURES`."""
    of = {name: _spread(*values[3 * place : 3 * place + 3]) for place, name in enumerate(SUBTASK_FIGURES)}
    return TaskSummary(
        checkpointed_size=of["checkpointed_size"],
        state_size=of["state_size"],
        end_to_end_duration=of["end_to_end_duration"],
        checkpoint_duration=Durations(sync=of["sync_duration"], async_=of["async_duration"]),
        alignment=Alignment(
            processed=of["processed_data"], persisted=of["persisted_data"], duration=of["alignment_duration"]
        ),
        start_delay=of["start_delay"],
        rows_in=of["rows_in"],
        rows_out=of["rows_out"],
    )


def _spread(smallest: float, average: float, largest: float) -> SubtaskSpread:
    if smallest < 0:
        return SubtaskSpread(min=-1, avg=-1, max=-1, skew=-1)
    skew = largest / average if average > 0 else 1
    return SubtaskSpread(min=smallest, avg=average, max=largest, skew=skew)


def subtask_page(
    connection: Connection, record: CheckpointRecord, operator_id: str, after: int, limit: int
) -> SubtaskList:
    """See `Readings.subtasks`."""
    records, next_index = subtasks_after(connection, record, operator_id, after, limit)
    return SubtaskList(subtasks=tuple(subtask_of(record, subtask) for subtask in records), next_index=next_index)


def subtasks_after(
    connection: Connection, record: CheckpointRecord, operator_id: str, after: int, limit: int
) -> tuple[list[SubtaskRecord], int | None]:
    """Return subtasks with their files, and the last index if there are more."""
    pipeline_id, checkpoint_id = record.pipeline_id, record.checkpoint_id
    limit = max(1, min(limit, _MOST))
    of_operator = _of(subtasks, pipeline_id, checkpoint_id) & (subtasks.c.operator_id == operator_id)
    wanted = select(*(subtasks.c[name] for name in SUBTASK_COLUMNS)).where(
        of_operator, subtasks.c.subtask_index > after
    )
    rows = connection.execute(wanted.order_by(subtasks.c.subtask_index).limit(limit + 1)).all()
    shown = rows[:limit]
    last = shown[-1].subtask_index if shown else after
    among = (handles.c.operator_id == operator_id) & handles.c.subtask_index.between(after + 1, last)
    files = connection.execute(select(*_FILE).where(_of(handles, pipeline_id, checkpoint_id), among).order_by(*_PLACE))
    return list(subtask_records(shown, files).values()), last if len(rows) > limit else None


def file_page(connection: Connection, pipeline_id: str, checkpoint_id: int, after: str | None, limit: int) -> FileList:
    """See `Readings.files`."""
    limit = max(1, min(limit, _MOST))
    operator_id, index, ordinal = ("", -1, -1) if after is None else _place(after)
    wanted = select(*_FILE).where(
        _of(handles, pipeline_id, checkpoint_id), tuple_(*_PLACE) > tuple_(*map(literal, (operator_id, index, ordinal)))
    )
    rows = connection.execute(wanted.order_by(*_PLACE).limit(limit + 1)).all()
    placed = [(row[0], row[1], handle_record(*row[3:])) for row in rows[:limit]]
    files = tuple(
        FileLine(operator_id=id_, subtask_index=place, handle=Handle.model_validate(handle), view=handle.view)
        for id_, place, handle in placed
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return FileList(files=files, next_key=None if last is None else f"{last[1]}/{last[2]}/{last[0]}")


def _of(table: Table, pipeline_id: str, checkpoint_id: int) -> ColumnElement[bool]:
    return (table.c.pipeline_id == pipeline_id) & (table.c.checkpoint_id == checkpoint_id)


def _place(key: str) -> tuple[str, int, int]:
    index, _, rest = key.partition("/")
    ordinal, _, operator_id = rest.partition("/")
    numbers = all(part.isascii() and part.isdigit() and len(part) < 10 for part in (index, ordinal))
    if not numbers or "\0" in operator_id:
        raise IllegalRequestError(
            f"{key!r} is not a position in the list of files. Nothing was changed. Give next_key of the previous "
            "page, or none for the first page."
        )
    return operator_id, int(index), int(ordinal)
