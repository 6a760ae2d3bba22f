"""What a checkpoint consists of: operators with their subtasks, subtasks and files in pages."""

from collections.abc import Collection
from datetime import UTC
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, literal, select, tuple_

from tidegate.postgres.folding import FOLDED, SUMS
from tidegate.postgres.rows import HANDLE_COLUMNS, SUBTASK_COLUMNS, handle_record, subtask_records
from tidegate.postgres.tables import handles, subtasks
from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.names import is_sink
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskRecord
from tidegate.reading.answer import Handle
from tidegate.reading.checkpoint_answers import (
    SUBTASK_FIGURES,
    FileLine,
    FileList,
    OperatorAt,
    SubtaskList,
    SubtaskSpread,
)
from tidegate.reading.history_answers import Figures

_MOST = 1000

_PLACE = (handles.c.operator_id, handles.c.subtask_index, handles.c.ordinal)
_FILE = (*_PLACE, *(handles.c[name] for name in HANDLE_COLUMNS))


def operators(connection: Connection, record: CheckpointRecord, sources: Collection[str]) -> tuple[OperatorAt, ...]:
    """In the order of the plan, upstream before downstream. `sources` are the names of those that are recorded."""
    asked = {"pipeline_id": record.pipeline_id, "checkpoint_ids": [record.checkpoint_id]}
    found = connection.execute(SUMS, asked).mappings().all() or connection.execute(FOLDED, asked).mappings()
    rows = {row["operator_id"]: row for row in found}
    return tuple(
        _operator(rows[plan.operator_id], plan.max_parallelism, sources)
        for plan in record.operators
        if plan.operator_id in rows
    )


def _operator(row: Any, max_parallelism: int, sources: Collection[str]) -> OperatorAt:
    operator_id = row["operator_id"]
    values = row["spreads"]
    spreads = {name: _spread(*values[3 * place : 3 * place + 3]) for place, name in enumerate(SUBTASK_FIGURES)}
    source = operator_id in sources or bool(row["positioned"])
    return OperatorAt(
        operator_id=operator_id,
        role="source" if source else "sink" if is_sink(operator_id) else "operator",
        parallelism=row["number"],
        max_parallelism=max_parallelism,
        num_acknowledged=row["acknowledged"],
        num_finished=row["finished"],
        max_attempt=row["attempt"],
        latest_ack_at=None if row["latest"] is None else row["latest"].astimezone(UTC),
        checkpointed_size=row["checkpointed_size"],
        state_size=row["state_size"],
        files=row["files"],
        figures=Figures(
            row["processed_data"],
            row["persisted_data"],
            *(row[name] if spreads[name].max >= 0 else -1 for name in ("rows_in", "rows_out")),
            *(round(spreads[name].max) for name in Figures.__slots__[4:]),
        ),
        unaligned=row["unaligned"],
        spreads=spreads,
    )


def _spread(smallest: float, average: float, largest: float) -> SubtaskSpread:
    if smallest < 0:
        return SubtaskSpread(min=-1, avg=-1, max=-1, skew=-1)
    skew = largest / average if average > 0 else 1
    return SubtaskSpread(min=smallest, avg=average, max=largest, skew=skew)


def subtask_page(
    connection: Connection, pipeline_id: str, checkpoint_id: int, operator_id: str, after: int, limit: int
) -> SubtaskList:
    """See `Readings.subtasks`."""
    limit = max(1, min(limit, _MOST))
    of_operator = _of(subtasks, pipeline_id, checkpoint_id) & (subtasks.c.operator_id == operator_id)
    wanted = select(*(subtasks.c[name] for name in SUBTASK_COLUMNS)).where(
        of_operator, subtasks.c.subtask_index > after
    )
    rows = connection.execute(wanted.order_by(subtasks.c.subtask_index).limit(limit + 1)).all()
    shown = rows[:limit]
    last = shown[-1].subtask_index if shown else after
    among = (handles.c.operator_id == operator_id) & handles.c.subtask_index.between(after + 1, last)
    held = connection.execute(select(*_FILE).where(_of(handles, pipeline_id, checkpoint_id), among).order_by(*_PLACE))
    found: list[SubtaskRecord] = list(subtask_records(shown, held).values())
    return SubtaskList(operator_id, tuple(found), last if len(rows) > limit else None)


def file_page(connection: Connection, pipeline_id: str, checkpoint_id: int, after: str | None, limit: int) -> FileList:
    """See `Readings.files`."""
    limit = max(1, min(limit, _MOST))
    operator_id, index, ordinal = ("", -1, -1) if after is None else _place(after)
    wanted = select(*_FILE).where(
        _of(handles, pipeline_id, checkpoint_id), tuple_(*_PLACE) > tuple_(*map(literal, (operator_id, index, ordinal)))
    )
    rows = connection.execute(wanted.order_by(*_PLACE).limit(limit + 1)).all()
    files = tuple(
        FileLine(operator_id=row[0], subtask_index=row[1], handle=Handle.model_validate(handle_record(*row[3:])))
        for row in rows[:limit]
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
            f"{key!r} is no place in the list of files. Nothing was changed. Give the next_key of the page before, or "
            "none for the first page."
        )
    return operator_id, int(index), int(ordinal)
