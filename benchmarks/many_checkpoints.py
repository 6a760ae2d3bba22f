"""Fills a database with pipelines and checkpoints, as SQL that makes its own rows: nothing is sent.

Rules that look at other rows are off meanwhile, and CHECK constraints hold. One pipeline has half of all checkpoints,
the others share the rest. Verdicts belong to every checkpoint, and so do subtasks unless something else is said; files
to the ten newest of each pipeline.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, text

LARGE = "pipeline-0"
#: A restore of it that somebody has had planned.
PLAN = "3f0c9f6e-8a55-4a0a-9d3c-1d2b7f1f4a60"

_PIPELINES = """
INSERT INTO tidegate.pipelines (pipeline_id, last_checkpoint_id, status, since)
SELECT 'pipeline-' || n, CASE n WHEN 0 THEN :large ELSE :small END,
    CASE WHEN n % 50 = 7 THEN 'FAILED' WHEN n % 50 = 8 THEN 'SUSPENDED' ELSE 'RUNNING' END, now()
FROM generate_series(0, :pipelines - 1) AS n
"""
_DAGS = """
INSERT INTO tidegate.pipeline_dags SELECT pipeline_id, 'dag-of-' || pipeline_id, now() FROM tidegate.pipelines
"""
_PLAN = """
INSERT INTO tidegate.restore_plans (pipeline_id, request_id, target, asked_at, asked_by, asked_from, dag_id, run_id,
    planned_at, refusal)
VALUES (:pipeline, :plan, '1', now(), 'somebody', 'here', 'tidegate_restore', 'tidegate__' || :plan, now(),
    'Its state is deleted.')
"""
_ENDPOINTS = """
INSERT INTO tidegate.endpoints (pipeline_id, role, name, type, place, recorded_at)
SELECT pipeline_id, role, name, type, 'data/' || name, now() FROM tidegate.pipelines,
    (VALUES ('SOURCE', 'arrivals', 'FileSource'), ('SINK', 'out', 'ParquetSink')) AS e (role, name, type)
"""
# Of each twenty checkpoints one failed and one is a savepoint; the newest has completed, what is older was replaced. In
# every tenth pipeline one more is in progress.
_CHECKPOINTS = """
INSERT INTO tidegate.checkpoints (pipeline_id, checkpoint_id, request_id, periodic, status, phase, triggered_at,
    deadline, num_subtasks, num_acknowledged, operators, acknowledged_at, validated_at, completed_at, failed_at,
    failure_reason, failure_message, notified_at, metadata_path, state_size, checkpointed_size, swept, kind, name)
SELECT pipeline_id, id, 'dag-of-' || pipeline_id || '/scheduled__' || id || '/20260101T000000.000000', true,
    status, CASE status WHEN 'IN_PROGRESS' THEN 'TRIGGERED' WHEN 'FAILED' THEN 'ACKNOWLEDGED' ELSE 'VALIDATED' END,
    at, at + interval '10 minutes', 64, CASE status WHEN 'IN_PROGRESS' THEN 0 ELSE 64 END,
    '[{"operator_id": "arrivals", "parallelism": 4, "max_parallelism": 128},
      {"operator_id": "enriched", "parallelism": 20, "max_parallelism": 128},
      {"operator_id": "totals", "parallelism": 20, "max_parallelism": 128},
      {"operator_id": "out-sink", "parallelism": 20, "max_parallelism": 128}]'::jsonb,
    CASE WHEN status <> 'IN_PROGRESS' THEN at + id % 17 * interval '1 second' END,
    CASE WHEN completed THEN at + interval '20 seconds' END,
    CASE WHEN completed THEN at + interval '21 seconds' END,
    CASE WHEN status = 'FAILED' THEN at + interval '20 seconds' END,
    CASE WHEN status = 'FAILED' THEN 'VALIDATION_FAILED' END,
    CASE WHEN status = 'FAILED' THEN 'minutes must not be negative' END,
    CASE WHEN completed THEN at + interval '22 seconds' END,
    CASE WHEN completed THEN pipeline_id || '/chk-' || id || '/_metadata' END,
    id * 1000, id % 100 * 1000, status <> 'IN_PROGRESS',
    CASE WHEN completed AND id % :saved = 11 THEN 'SAVEPOINT' ELSE 'CHECKPOINT' END,
    CASE WHEN completed AND id % :saved = 11 THEN 'before change ' || id END
FROM (
    SELECT *, status NOT IN ('IN_PROGRESS', 'FAILED') AS completed FROM (
        SELECT pipeline_id, id, now() - (last_checkpoint_id - id) * interval '1 minute' AS at,
            CASE WHEN id = last_checkpoint_id AND right(pipeline_id, 1) = '3' THEN 'IN_PROGRESS'
                WHEN id % 20 = 10 THEN 'FAILED'
                WHEN id % :saved = 11 OR id >= last_checkpoint_id - 1 THEN 'COMPLETED'
                ELSE 'DISCARDED' END AS status
        FROM tidegate.pipelines, generate_series(1, last_checkpoint_id) AS id) AS a) AS b
"""
_SUBTASKS = """
INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index, attempt, acknowledged_at,
    position, start_delay, alignment_duration, sync_duration, async_duration, processed_bytes, persisted_bytes,
    rows_in, rows_out)
SELECT pipeline_id, checkpoint_id, operator_id, i, 1, c.acknowledged_at,
    CASE WHEN operator_id = 'arrivals' AND c.acknowledged_at IS NOT NULL THEN '{"splits": 4, "files": 17}'::jsonb END,
    i * 3, i * 7 % 50, i % 5, checkpoint_id % 300, i * 100, checkpoint_id % 2 * i, 1000 + i, 900
FROM tidegate.checkpoints c,
    (VALUES ('arrivals', 4), ('enriched', 20), ('out-sink', 20), ('totals', 20)) AS o (operator_id, parallelism),
    generate_series(0, parallelism - 1) AS i
WHERE pipeline_id = ANY (:some) AND c.checkpoint_id > :after
"""
_HANDLES = """
INSERT INTO tidegate.handles (pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal, path, kind, rows, bytes,
    checksum, created_by, first_key_group, last_key_group)
SELECT s.pipeline_id, s.checkpoint_id, operator_id, subtask_index, n, s.pipeline_id || '/chk-' || s.checkpoint_id
    || '/' || operator_id || '/' || subtask_index || '-1-' || n || '.parquet',
    CASE operator_id WHEN 'arrivals' THEN 'POSITION' WHEN 'out-sink' THEN 'STAGED' ELSE 'RUN' END,
    1000, 50000, repeat('a', 64), greatest(1, s.checkpoint_id - n),
    CASE WHEN operator_id IN ('enriched', 'totals') THEN subtask_index * 6 END,
    CASE WHEN operator_id IN ('enriched', 'totals') THEN subtask_index * 6 + 5 END
FROM tidegate.subtasks s JOIN tidegate.pipelines p USING (pipeline_id), generate_series(0, 2) AS n
WHERE s.checkpoint_id > p.last_checkpoint_id - :files AND s.acknowledged_at IS NOT NULL
"""
_VERDICTS = """
INSERT INTO tidegate.verdicts (pipeline_id, checkpoint_id, ordinal, target, suite, success, evaluated, failed, results)
SELECT pipeline_id, checkpoint_id, n, 'sink:out', 'suite-' || n, status <> 'FAILED', 3,
    CASE status WHEN 'FAILED' THEN 1 ELSE 0 END, (
        SELECT jsonb_agg(jsonb_build_object('type', 'expect_column_values_to_be_between', 'kwargs',
            jsonb_build_object('column', 'c' || e, 'min_value', 0), 'success', status <> 'FAILED',
            'observed', checkpoint_id % 100, 'element_count', 20000, 'unexpected_count', 0,
            'unexpected_percent', checkpoint_id % 7, 'unexpected_samples', jsonb_build_array(1, 2, 3, 4, 5),
            'unexpected_rows', jsonb_build_array(jsonb_build_object('carrier', 'AA')), 'details', NULL, 'error', NULL))
        FROM generate_series(1, 3) AS e)
FROM tidegate.checkpoints, generate_series(0, 1) AS n WHERE status <> 'IN_PROGRESS'
"""
_FIGURES = """
INSERT INTO tidegate.figures
SELECT pipeline_id, checkpoint_id, triggered_at, checkpoint_id % 17 * 1000, checkpointed_size, state_size,
    checkpoint_id % 1000, checkpoint_id % 2 * 500, 44000, 18000, 57, 49, 4, checkpoint_id % 300
FROM tidegate.checkpoints WHERE completed_at IS NOT NULL
"""


def fill(
    engine: Engine,
    pipelines: int,
    checkpoints: int,
    say: Callable[[str], None],
    after: int = 0,
    files: int = 10,
    saved: int = 20,
) -> int:
    """So many pipelines and, together, so many checkpoints of 64 subtasks, one of `saved` a savepoint. Returns the last
    of `LARGE`. Those `after` an id have subtasks, and the newest `files` of them files."""
    small = max(1, checkpoints // 2 // max(1, pipelines - 1))
    numbers = {"pipelines": pipelines, "saved": saved, "small": small, "large": checkpoints - small * (pipelines - 1)}
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("SET LOCAL synchronous_commit = off"))
        for what in (_PIPELINES, _DAGS, _ENDPOINTS, _CHECKPOINTS):
            _run(connection, what, numbers)
        _run(connection, _PLAN, {"pipeline": LARGE, "plan": PLAN})
        say("pipelines and checkpoints are there")
        names = list(connection.execute(text("SELECT pipeline_id FROM tidegate.pipelines")).scalars())
        for start in range(0, len(names), 100):
            _run(connection, _SUBTASKS, {"some": names[start : start + 100], "after": after})
            say(f"subtasks of {min(start + 100, len(names))} pipelines are there")
        _run(connection, _HANDLES, {"files": files})
        for what in (_VERDICTS, _FIGURES):
            _run(connection, what, {})
    vacuum(engine)
    say("the planner has its statistics")
    return numbers["large"]


def vacuum(engine: Engine) -> None:
    """Give the planner its statistics. No transaction can do that, and each of the engine's statements begins one."""
    connection: Any = engine.raw_connection()
    try:
        connection.driver_connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    finally:
        connection.driver_connection.autocommit = False
        connection.close()


def _run(connection: Connection, statement: str, values: Mapping[str, object]) -> None:
    connection.execute(text(statement), values)
