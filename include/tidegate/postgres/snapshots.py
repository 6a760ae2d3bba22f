"""Read the subtasks of a checkpoint, with their snapshots.

For many subtasks that takes two statements, because their join with the handles may be planned badly before there
are statistics. The result is still of one moment, because an acknowledgement and its handles are written together
and never change. Handles that are read later belong to the subtasks read before, and a subtask that had not
acknowledged then has none.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ARRAY, Connection, Integer, Row, Select, Table, Text, bindparam, cast, func, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by

from tidegate.postgres.rows import HANDLE_COLUMNS, IDENTITY_COLUMNS, SUBTASK_COLUMNS, subtask_records
from tidegate.postgres.tables import handles, subtasks
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord

#: The columns that order the rows of one checkpoint.
_PLACE = (*IDENTITY_COLUMNS, "ordinal")


def _of_checkpoint(table: Table, columns: Sequence[str]) -> Select[Any]:
    return select(*(table.c[name] for name in columns)).where(
        table.c.pipeline_id == bindparam("pipeline_id"), table.c.checkpoint_id == bindparam("checkpoint_id")
    )


def _in_order(table: Table, columns: Sequence[str]) -> Select[Any]:
    """Return a query of all rows of a checkpoint."""
    return _of_checkpoint(table, columns).order_by(*table.primary_key.columns)


def _looked_up(table: Table, columns: Sequence[str]) -> Select[Any]:
    """Return a query of the rows of some subtasks of a checkpoint, found one by one through the primary key.

    LATERAL and OFFSET leave the planner no other way. Without statistics, as right after a large checkpoint was
    triggered, it would read all rows of the checkpoint for each batch of acknowledgements.
    """
    operator_ids = cast(bindparam("operator_ids"), ARRAY(Text))
    subtask_indexes = cast(bindparam("subtask_indexes"), ARRAY(Integer))
    requested = (
        func.unnest(operator_ids, subtask_indexes).table_valued(*IDENTITY_COLUMNS, name="requested").render_derived()
    )
    identity = (table.c[name] == requested.c[name] for name in IDENTITY_COLUMNS)
    found = _of_checkpoint(table, columns).where(*identity).offset(0).correlate(requested).lateral()
    in_order = (found.c[name] for name in _PLACE if name in found.c)
    return select(found).select_from(requested.join(found, true())).order_by(*in_order)


def _with_handles() -> Select[Any]:
    """Return a query of all rows of a checkpoint's subtasks, each with the rows of its handles."""
    values = func.jsonb_build_array(*(handles.c[name] for name in HANDLE_COLUMNS))
    of_one = _of_checkpoint(handles, ()).where(*(handles.c[name] == subtasks.c[name] for name in IDENTITY_COLUMNS))
    listed = of_one.add_columns(func.jsonb_agg(aggregate_order_by(values, handles.c.ordinal))).correlate(subtasks)
    return _in_order(subtasks, SUBTASK_COLUMNS).add_columns(listed.scalar_subquery().label("handles"))


#: The most subtasks of a checkpoint for which the handles of each are looked up separately.
NARROW = 1000

_CHUNK = 1000  # rows made into records at a time, so that 100,000 are not in memory twice
_HANDLES = (*_PLACE, *HANDLE_COLUMNS)
_ALL_SUBTASKS, _ALL_HANDLES = _in_order(subtasks, SUBTASK_COLUMNS), _in_order(handles, _HANDLES)
_TOGETHER = _with_handles()
_NAMED_SUBTASKS, _NAMED_HANDLES = _looked_up(subtasks, SUBTASK_COLUMNS), _looked_up(handles, _HANDLES)


def subtasks_of(
    connection: Connection,
    pipeline_id: str,
    checkpoint_id: int,
    only: Iterable[SubtaskId] | None = None,
    record: CheckpointRecord | None = None,
) -> dict[SubtaskId, SubtaskRecord]:
    """Return the subtasks by operator and index. With `only`, return those of the named subtasks that exist. The
    checkpoint's `record`, if known, decides how they are read best."""
    checkpoint = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id}
    if only is not None:
        return _named(connection, checkpoint, dict.fromkeys(only))
    if record is not None and record.num_acknowledged == 0:
        return subtask_records(connection.execute(_ALL_SUBTASKS, checkpoint).yield_per(_CHUNK), ())
    if record is not None and record.num_subtasks <= NARROW:
        rows = connection.execute(_TOGETHER, checkpoint).all()
        return subtask_records((row[:-1] for row in rows), _handles_of(rows))
    results = connection.execute(_ALL_SUBTASKS, checkpoint), connection.execute(_ALL_HANDLES, checkpoint)
    return subtask_records(*(rows.yield_per(_CHUNK) for rows in results))


def _handles_of(rows: Sequence[Row[Any]]) -> Iterator[Sequence[Any]]:
    for row in rows:
        for ordinal, handle in enumerate(row.handles or ()):
            yield row.operator_id, row.subtask_index, ordinal, *handle


def _named(
    connection: Connection, checkpoint: dict[str, Any], only: Collection[SubtaskId]
) -> dict[SubtaskId, SubtaskRecord]:
    def rows_of(query: Select[Any], wanted: Collection[SubtaskId]) -> Sequence[Row[Any]]:
        if not wanted:
            return []
        operator_ids = [subtask.operator_id for subtask in wanted]
        subtask_indexes = [subtask.subtask_index for subtask in wanted]
        parameters = {**checkpoint, "operator_ids": operator_ids, "subtask_indexes": subtask_indexes}
        return connection.execute(query, parameters).all()

    rows = rows_of(_NAMED_SUBTASKS, only)
    acknowledged = [SubtaskId(row.operator_id, row.subtask_index) for row in rows if row.acknowledged_at is not None]
    return subtask_records(rows, rows_of(_NAMED_HANDLES, acknowledged))
