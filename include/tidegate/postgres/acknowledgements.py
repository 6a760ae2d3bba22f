"""Write a batch of acknowledgements in one statement and one round trip, whatever its size.

The batch is sent as one array per column, so eight rows and ten thousand are handled alike, without a staging table.
`protocol.steps.acknowledge` has decided which acknowledgements count. The statement fences once more: only the
current attempt counts, of a subtask that has not acknowledged, in a checkpoint in progress.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, text

from tidegate.postgres.rows import HANDLE_COLUMNS, handle_row
from tidegate.postgres.tables import METRICS
from tidegate.protocol.facts.records import Acknowledgement, SubtaskId, SubtaskRecord

_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

_RECORD = text("""
WITH counted AS (
    UPDATE tidegate.subtasks s SET
        acknowledged_at = :at, position = nullif(r.position, 'null'), finished = r.finished,
        start_delay = r.start_delay, alignment_duration = r.alignment_duration,
        sync_duration = r.sync_duration, async_duration = r.async_duration,
        processed_bytes = r.processed_bytes, persisted_bytes = r.persisted_bytes,
        rows_in = r.rows_in, rows_out = r.rows_out
    FROM unnest(
        CAST(:operator_id AS text[]), CAST(:subtask_index AS integer[]), CAST(:attempt AS integer[]),
        CAST(:position AS jsonb[]), CAST(:finished AS boolean[]),
        CAST(:start_delay AS bigint[]), CAST(:alignment_duration AS bigint[]), CAST(:sync_duration AS bigint[]),
        CAST(:async_duration AS bigint[]), CAST(:processed_bytes AS bigint[]), CAST(:persisted_bytes AS bigint[]),
        CAST(:rows_in AS bigint[]), CAST(:rows_out AS bigint[])
    ) WITH ORDINALITY AS r (
        operator_id, subtask_index, attempt, position, finished, start_delay, alignment_duration, sync_duration,
        async_duration, processed_bytes, persisted_bytes, rows_in, rows_out, place)
    CROSS JOIN LATERAL (
        SELECT k.ctid FROM tidegate.subtasks k
        WHERE k.pipeline_id = :pipeline_id AND k.checkpoint_id = :checkpoint_id
          AND k.operator_id = r.operator_id AND k.subtask_index = r.subtask_index
          AND k.attempt = r.attempt AND k.acknowledged_at IS NULL
        OFFSET 0
    ) AS open
    WHERE s.ctid = open.ctid
      AND EXISTS (
        SELECT FROM tidegate.checkpoints c
        WHERE c.pipeline_id = :pipeline_id AND c.checkpoint_id = :checkpoint_id AND c.status = 'IN_PROGRESS')
    RETURNING r.place, s.operator_id, s.subtask_index, s.finished
), kept AS (
    INSERT INTO tidegate.handles (
        pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal,
        path, kind, rows, bytes, checksum, created_by, first_key_group, last_key_group, details)
    SELECT :pipeline_id, :checkpoint_id, c.operator_id, c.subtask_index, h.ordinal,
        h.path, h.kind, h.rows, h.bytes, h.checksum, h.created_by, h.first_key_group, h.last_key_group, h.details
    FROM counted c JOIN unnest(
        CAST(:place AS bigint[]), CAST(:ordinal AS integer[]), CAST(:path AS text[]), CAST(:kind AS text[]),
        CAST(:rows AS bigint[]), CAST(:bytes AS bigint[]), CAST(:checksum AS text[]), CAST(:created_by AS bigint[]),
        CAST(:first_key_group AS integer[]), CAST(:last_key_group AS integer[]), CAST(:details AS jsonb[])
    ) AS h (
        place, ordinal, path, kind, rows, bytes, checksum, created_by, first_key_group, last_key_group, details
    ) USING (place)
)
UPDATE tidegate.checkpoints c
SET num_acknowledged = n.acknowledged, num_finished = c.num_finished + n.finished,
    phase = CASE WHEN n.moves THEN 'ACKNOWLEDGED' ELSE c.phase END,
    acknowledged_at = CASE WHEN n.moves THEN CAST(:at AS timestamptz) ELSE c.acknowledged_at END
FROM (
    SELECT b.num_acknowledged + a.number AS acknowledged, a.finished,
        :moves AND b.status = 'IN_PROGRESS' AND b.phase = 'TRIGGERED'
            AND b.num_acknowledged + a.number = b.num_subtasks AS moves
    FROM tidegate.checkpoints b, (
        SELECT count(*) AS number, count(*) FILTER (WHERE finished) AS finished FROM counted) a
    WHERE b.pipeline_id = :pipeline_id AND b.checkpoint_id = :checkpoint_id
) n
WHERE c.pipeline_id = :pipeline_id AND c.checkpoint_id = :checkpoint_id
RETURNING c.*
""")

_BEGIN_ATTEMPT = text("""
WITH latest AS (
    SELECT max(attempt) AS attempt FROM tidegate.subtasks
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id
), requested AS (
    UPDATE tidegate.subtasks s SET attempt = latest.attempt + 1
    FROM latest, tidegate.checkpoints c
    WHERE c.pipeline_id = :pipeline_id AND c.checkpoint_id = :checkpoint_id AND c.status = 'IN_PROGRESS'
      AND s.pipeline_id = :pipeline_id AND s.checkpoint_id = :checkpoint_id AND s.acknowledged_at IS NULL
    RETURNING s.operator_id, s.subtask_index
)
SELECT latest.attempt + CASE WHEN EXISTS (SELECT FROM requested) THEN 1 ELSE 0 END AS newest, requested.*
FROM latest LEFT JOIN requested ON :narrow
ORDER BY requested.operator_id, requested.subtask_index
""")


def begin_attempt(
    connection: Connection, pipeline_id: str, checkpoint_id: int, narrow: bool
) -> tuple[int | None, dict[SubtaskId, SubtaskRecord]]:
    """Begin a new attempt of every subtask that has not acknowledged. Return the newest attempt, None if there is no
    such checkpoint, and if it is `narrow`, these subtasks."""
    parameters = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "narrow": narrow}
    rows = connection.execute(_BEGIN_ATTEMPT, parameters).all()
    pending = (SubtaskId(row.operator_id, row.subtask_index) for row in rows if row.operator_id is not None)
    return rows[0].newest, {subtask: SubtaskRecord(subtask, rows[0].newest) for subtask in pending}


def record(
    connection: Connection,
    pipeline_id: str,
    checkpoint_id: int,
    acknowledgements: Sequence[Acknowledgement],
    at: datetime,
    moves: bool,
) -> RowMapping | None:
    """Record acknowledgements and return the checkpoint's row; None if there is no such checkpoint. Of two
    acknowledgements of one attempt the first counts. With `moves`, the last one moves the checkpoint to
    ACKNOWLEDGED."""
    first: dict[tuple[SubtaskId, int], Acknowledgement] = {}
    for acknowledgement in acknowledgements:
        first.setdefault((acknowledgement.subtask, acknowledgement.attempt), acknowledgement)
    batch = list(first.values())
    checkpoint = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at, "moves": moves}
    reported = {**_subtask_columns(batch), **_handle_columns(batch)}
    return connection.execute(_RECORD, checkpoint | reported).mappings().one_or_none()


def _subtask_columns(batch: Sequence[Acknowledgement]) -> dict[str, str]:
    return {
        "operator_id": _texts([reported.subtask.operator_id for reported in batch]),
        "subtask_index": _numbers(reported.subtask.subtask_index for reported in batch),
        "attempt": _numbers(reported.attempt for reported in batch),
        "position": _objects(reported.snapshot.position for reported in batch),
        "finished": _booleans(reported.snapshot.finished for reported in batch),
        **{name: _numbers(getattr(reported.metrics, name) for reported in batch) for name in METRICS},
    }


def _handle_columns(batch: Sequence[Acknowledgement]) -> dict[str, str]:
    placed = [
        (place, ordinal, *handle_row(handle))
        for place, reported in enumerate(batch, start=1)
        for ordinal, handle in enumerate(reported.snapshot.handles)
    ]
    names = ("place", "ordinal", *HANDLE_COLUMNS)
    columns = dict(zip(names, zip(*placed, strict=True), strict=True)) if placed else dict.fromkeys(names, ())
    return {
        "place": _numbers(columns["place"]),
        "ordinal": _numbers(columns["ordinal"]),
        **{name: _texts(columns[name]) for name in ("path", "kind", "checksum")},
        **{name: _numbers(columns[name]) for name in ("rows", "bytes", "created_by")},
        **{name: _numbers(columns[name]) for name in ("first_key_group", "last_key_group")},
        "details": _objects(columns["details"]),
    }


# Array literals in PostgreSQL's syntax, one string per column, so that the driver does not adapt every element.


def _numbers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def _booleans(values: Iterable[bool]) -> str:
    return "{" + ",".join("t" if value else "f" for value in values) + "}"


def _texts(values: Sequence[str]) -> str:
    """Escape all values at once. NUL, which PostgreSQL cannot store, separates the elements until then."""
    if not values:
        return "{}"
    joined = "\0".join(values)
    if joined.count("\0") != len(values) - 1:
        raise ValueError("an operator, path, checksum or JSON of an acknowledgement contains a NUL character")
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{escaped}"}}'


def _objects(values: Iterable[Mapping[str, Any] | None]) -> str:
    return _texts(["null" if value is None else _JSON.encode(dict(value)) if value else "{}" for value in values])
