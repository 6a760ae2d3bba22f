"""How much PostgreSQL reads for a batch: what the batch is about, however large the checkpoint or the queue is.

Without statistics, as they are missing right after a large checkpoint was triggered, the planner takes a checkpoint for
a few rows and would rather read all of them than look some up.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from store_steps import acknowledgement, at, handle, record

from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import Deletion, SubtaskId

SUBTASKS = [SubtaskId("wide", index) for index in range(5000)]
DELETIONS = [Deletion("storage", f"old/{number}") for number in range(5000)]
BATCH = 20


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    engine = connect(postgres_url)
    yield engine
    engine.dispose()


@pytest.fixture
def wide(engine: Engine) -> PostgresCheckpointStore:
    """One checkpoint of many subtasks, half of them acknowledged, and a long queue."""
    store = PostgresCheckpointStore(engine)
    with store.transaction("wide") as transaction:
        transaction.add_pending(replace(record(1, "run-1", "wide"), num_subtasks=len(SUBTASKS)), SUBTASKS)
        transaction.begin_attempt(1)
        half = SUBTASKS[: len(SUBTASKS) // 2]
        transaction.record_acknowledgements(1, [_report(subtask) for subtask in half], at(3))
        transaction.enqueue_deletions(DELETIONS)
    return store


def test_a_batch_of_acknowledgements_reads_its_own_subtasks(wide: PostgresCheckpointStore, engine: Engine) -> None:
    batch = SUBTASKS[2500 - BATCH // 2 : 2500 + BATCH // 2]  # half of them have acknowledged
    with wide.transaction("wide") as transaction, _rows_read(engine) as rows:
        assert len(transaction.subtasks(1, batch)) == BATCH
        assert transaction.record_acknowledgements(1, [_report(subtask) for subtask in batch], at(4)) == 2490
    assert len(rows) == 3
    assert max(rows) <= BATCH


def test_removing_a_batch_from_the_queue_reads_its_own_files(wide: PostgresCheckpointStore, engine: Engine) -> None:
    with wide.transaction("wide") as transaction, _rows_read(engine) as rows:
        transaction.remove_deletions(DELETIONS[100 : 100 + BATCH])
    assert len(rows) == 1
    assert max(rows) <= BATCH
    with wide.transaction("wide") as transaction:
        assert transaction.pending_deletions(6000) == DELETIONS[:100] + DELETIONS[100 + BATCH :]


def test_the_oldest_to_roll_up_is_found_without_reading_the_others(engine: Engine) -> None:
    store = _with_a_long_history(engine)
    with store.transaction("old") as transaction, _rows_read(engine, "NOT tidegate.checkpoints.folded") as rows:
        assert [found.checkpoint_id for found in transaction.not_rolled_up(1)] == [4001]
    assert len(rows) == 1
    assert max(rows) <= BATCH


def test_what_is_under_way_is_found_without_reading_the_history(engine: Engine) -> None:
    store = _with_a_long_history(engine)
    with store.transaction("old") as transaction, _rows_read(engine, "to_jsonb(p)") as rows:
        assert [found.checkpoint_id for found in transaction.in_progress()] == [1]
    assert len(rows) == 1
    assert max(rows) <= 10


def _with_a_long_history(engine: Engine) -> PostgresCheckpointStore:
    """As after a long time: nothing else writes so much at once."""
    store = PostgresCheckpointStore(engine)
    with store.transaction("old") as transaction:
        transaction.add_pending(replace(record(1, "run-1", "old"), num_subtasks=1), [SubtaskId("one", 0)])
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(_ENDED_LONG_AGO))
        connection.execute(text("ANALYZE tidegate.checkpoints"))
    return store


#: 4,000 checkpoints that are rolled up, and 1,000 that are not.
_ENDED_LONG_AGO = """
INSERT INTO tidegate.checkpoints
SELECT (jsonb_populate_record(c, jsonb_build_object('checkpoint_id', n, 'request_id', 'run-' || n, 'status', 'FAILED',
    'failed_at', c.triggered_at, 'failure_reason', 'CHECKPOINT_EXPIRED', 'failure_message', 'late',
    'folded', n <= 4000))).*
FROM tidegate.checkpoints c, generate_series(2, 5000) AS n WHERE pipeline_id = 'old'
"""


def _report(subtask: SubtaskId) -> Any:
    return acknowledgement(subtask, 1, handle(f"run-{subtask.subtask_index}", 1))


class _rows_read:
    """The most rows that any part of each statement's plan went through, of statements with a text in them; those about
    a batch have `unnest`."""

    def __init__(self, engine: Engine, of: str = "unnest") -> None:
        self._engine = engine
        self._of = of
        self._rows: list[int] = []

    def __enter__(self) -> list[int]:
        event.listen(self._engine, "before_cursor_execute", self._explain)
        return self._rows

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._explain)

    def _explain(self, _: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if self._of not in statement:
            return
        with cursor.connection.cursor() as explaining:
            explaining.execute("SAVEPOINT explained")
            explaining.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            self._rows.append(int(_most(explaining.fetchone()[0][0]["Plan"])))
            explaining.execute("ROLLBACK TO explained")


def _most(plan: dict[str, Any]) -> float:
    removed = (plan.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Join Filter"))
    own = (plan["Actual Rows"] + sum(removed)) * plan["Actual Loops"]
    return max(own, *(_most(part) for part in plan.get("Plans", ())), 0)
