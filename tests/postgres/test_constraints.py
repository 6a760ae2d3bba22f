"""The database itself refuses what the protocol does not know, whoever writes it."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError
from store_steps import FIRST, PIPELINE, SUBTASKS, acknowledged, at, completed, handle, record, triggered

from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import COMMITTED, TRANSITIONS, Phase, Stage, Status

STAGES = list(TRANSITIONS)
UPDATE = "UPDATE tidegate.checkpoints SET "
UPDATE_PIPELINE = "UPDATE tidegate.pipelines SET "
COMPACTION = (
    "INSERT INTO tidegate.compactions"
    " (pipeline_id, operator_id, subtask_index, path, kind, rows, bytes, checksum, created_by, replaces)"
)
ORPHAN = """
    INSERT INTO tidegate.handles (pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal, path, kind, rows,
        bytes, checksum, created_by)
    SELECT pipeline_id, checkpoint_id, operator_id, 9, 0, path, kind, 1, 1, '', 1 FROM tidegate.handles LIMIT 1"""


@pytest.fixture
def connection(postgres_url: str, store: PostgresCheckpointStore) -> Iterator[Connection]:
    """A connection to the store's database, rolled back in the end."""
    engine: Engine = connect(postgres_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def columns_of(stage: Stage) -> dict[str, Any]:
    """A row's columns that fit the stage."""
    status, phase = stage
    moment = "2026-01-01T00:00:00Z"
    return {
        "status": status.value,
        "phase": phase.value,
        "acknowledged_at": None if phase is Phase.TRIGGERED else moment,
        "validated_at": moment if phase is Phase.VALIDATED else None,
        "completed_at": moment if status in COMMITTED else None,
        "metadata_path": "flights/chk-1/_metadata" if status in COMMITTED else None,
        "failed_at": moment if status is Status.FAILED else None,
        "failure_reason": "TASK_FAILURE" if status is Status.FAILED else None,
        "failure_message": "gone" if status is Status.FAILED else None,
        "held_at": moment if phase is Phase.HELD else None,
        "held_until": "2026-01-01T02:00:00Z" if phase is Phase.HELD else None,
        "held_message": "too late" if phase is Phase.HELD else None,
    }


def move(connection: Connection, stage: Stage, **changes: Any) -> None:
    """What was held stays so; where it goes on from there, somebody has approved it."""
    values = {**columns_of(stage), **changes}
    connection.execute(
        text("""
            UPDATE tidegate.checkpoints SET
                held_at = coalesce(held_at, :held_at), held_until = coalesce(held_until, :held_until),
                held_message = coalesce(held_message, :held_message),
                decision = CASE WHEN phase = 'HELD' AND :validated THEN 'APPROVED' ELSE decision END,
                decided_at = CASE WHEN phase = 'HELD' AND :validated THEN held_at ELSE decided_at END,
                decided_by = CASE WHEN phase = 'HELD' AND :validated THEN 'ada' ELSE decided_by END,
                status = :status, phase = :phase, acknowledged_at = :acknowledged_at,
                validated_at = :validated_at, completed_at = :completed_at, metadata_path = :metadata_path,
                failed_at = :failed_at, failure_reason = :failure_reason, failure_message = :failure_message
            WHERE checkpoint_id = 1"""),
        values | {"validated": values["phase"] == Phase.VALIDATED},
    )


def bring_to(connection: Connection, goal: Stage) -> None:
    """Along the legal transitions, from TRIGGERED."""
    paths: list[list[Stage]] = [[STAGES[0]]]
    while paths:
        path = paths.pop(0)
        if path[-1] == goal:
            for stage in path[1:]:
                move(connection, stage)
            return
        paths.extend([*path, after] for after in TRANSITIONS[path[-1]])
    raise AssertionError(f"{goal} cannot be reached")


@pytest.mark.parametrize("before", STAGES, ids=lambda stage: "-".join(stage))
def test_exactly_the_legal_transitions_are_accepted(
    store: PostgresCheckpointStore, connection: Connection, before: Stage
) -> None:
    triggered(store)
    connection.execute(text("UPDATE tidegate.checkpoints SET num_acknowledged = num_subtasks"))
    bring_to(connection, before)
    for after in product(Status, Phase):
        savepoint = connection.begin_nested()
        try:
            move(connection, after)
            accepted = True
        except IntegrityError:
            accepted = False
        savepoint.rollback()
        assert accepted == (after in TRANSITIONS[before] or after == before), after


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("checkpoints_legal_transition", "status = 'COMPLETED'"),
        ("checkpoints_legal_transition", "status = 'PAUSED'"),
        ("checkpoints_counts", "num_acknowledged = 5"),
        ("checkpoints_counts", "num_acknowledged = -1"),
        ("checkpoints_counts", "num_subtasks = 0"),
        ("checkpoints_all_acknowledged", "phase = 'ACKNOWLEDGED', acknowledged_at = now()"),
        ("checkpoints_acknowledged_at", "acknowledged_at = now()"),
        ("checkpoints_acknowledged_at", "phase = 'ACKNOWLEDGED', num_acknowledged = num_subtasks"),
        ("checkpoints_validated_at", "validated_at = now()"),
        ("checkpoints_completed_at", "completed_at = now()"),
        ("checkpoints_metadata", "metadata_path = 'x'"),
        ("checkpoints_notified_at", "notified_at = now()"),
        ("checkpoints_failure", "failure_reason = 'TASK_FAILURE'"),
        ("checkpoints_failure", "status = 'FAILED'"),
        ("checkpoints_failure", "status = 'FAILED', failure_reason = 'TASK_FAILURE', failed_at = now()"),
        (
            "checkpoints_failure_reason",
            "status = 'FAILED', failure_reason = 'BAD_LUCK', failure_message = '', failed_at = now()",
        ),
        ("checkpoints_sizes", "state_size = -1"),
        ("checkpoints_swept", "swept = true"),
        ("checkpoints_finished", "num_finished = 1"),
        ("checkpoints_finished", "num_finished = -1"),
        ("checkpoints_drain", "drain = true"),
        ("checkpoints_drain", "drain = true, kind = 'SAVEPOINT'"),
        ("checkpoints_kind", "kind = 'STOP'"),
        ("checkpoints_request", "request_id = ''"),
        ("checkpoints_pipeline_fkey", "pipeline_id = 'unknown'"),
    ],
)
def test_an_illegal_checkpoint_is_refused(
    store: PostgresCheckpointStore, connection: Connection, rule: str, change: str
) -> None:
    with store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-1"), SUBTASKS)
    without_guards(connection, "subtasks")
    connection.execute(text("DELETE FROM tidegate.subtasks"))  # only the rule in question shall be broken
    assert rule_broken_by(connection, UPDATE + change) == rule


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("checkpoints_held", "held_until = held_at"),
        ("checkpoints_held", "held_message = NULL"),
        ("checkpoints_held", "held_at = NULL, held_until = NULL, held_message = NULL"),
        ("checkpoints_approved", "decision = 'APPROVED'"),
        ("checkpoints_decided", "decision = 'MAYBE', decided_at = held_at, decided_by = 'ada'"),
        ("checkpoints_decided", "decision = 'REJECTED', decided_at = held_at, decided_by = ''"),
        ("checkpoints_decided", "decision = 'REJECTED', decided_at = held_until, decided_by = 'ada'"),
        ("checkpoints_decided", "decision_comment = 'why not'"),
        ("checkpoints_approved", "decision = 'APPROVED', decided_at = held_at, decided_by = 'ada'"),
        ("checkpoints_approved", "phase = 'VALIDATED', validated_at = now()"),
        ("checkpoints_legal_transition", "phase = 'ACKNOWLEDGED'"),
        ("checkpoints_legal_transition", "status = 'COMPLETED'"),
        (
            "checkpoints_rejected",
            "status = 'FAILED', failure_reason = 'VALIDATION_REJECTED', failure_message = '', failed_at = now()",
        ),
        (
            "checkpoints_rejected",
            "status = 'FAILED', failure_reason = 'HOLD_EXPIRED', failure_message = '', failed_at = now(),"
            " decision = 'REJECTED', decided_at = held_at, decided_by = 'ada'",
        ),
        (
            "checkpoints_approved",
            "decision = 'REJECTED', decided_at = held_at, decided_by = 'ada', phase = 'VALIDATED',"
            " validated_at = now()",
        ),
    ],
)
def test_nothing_is_held_or_decided_but_as_the_protocol_says(
    store: PostgresCheckpointStore, connection: Connection, rule: str, change: str
) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as tx:
        assert tx.hold(1, at(120), "too late", at(20))
    assert rule_broken_by(connection, UPDATE + change) == rule


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("checkpoints_completed_at", "completed_at = NULL"),
        ("checkpoints_metadata", "metadata_path = NULL"),
        ("checkpoints_metadata_confined", "metadata_path = '../x'"),
        ("checkpoints_validated_at", "validated_at = NULL"),
        ("checkpoints_all_acknowledged", "num_acknowledged = 3"),
        ("checkpoints_legal_transition", "phase = 'ACKNOWLEDGED', validated_at = NULL"),
        ("checkpoints_request_once", "request_id = 'request-2'"),
    ],
)
def test_a_completed_checkpoint_stays_whole(
    store: PostgresCheckpointStore, connection: Connection, rule: str, change: str
) -> None:
    completed(store)
    triggered(store)
    assert rule_broken_by(connection, UPDATE + change + " WHERE checkpoint_id = 1") == rule


@pytest.mark.parametrize(
    ("rule", "statement"),
    [
        ("subtasks_attempt", "UPDATE tidegate.subtasks SET attempt = -1, acknowledged_at = NULL, position = NULL"),
        ("subtasks_asked_before_acknowledged", "UPDATE tidegate.subtasks SET attempt = 0"),
        ("subtasks_finished", "UPDATE tidegate.subtasks SET acknowledged_at = NULL, position = NULL, finished = true"),
        ("subtasks_position", "UPDATE tidegate.subtasks SET acknowledged_at = NULL, position = '{}'"),
        ("subtasks_metrics", "UPDATE tidegate.subtasks SET rows_out = -2"),
        ("subtasks_checkpoint_fkey", "DELETE FROM tidegate.handles; UPDATE tidegate.subtasks SET checkpoint_id = 9"),
        ("handles_of_subtask", ORPHAN),
        ("handles_path_confined", "UPDATE tidegate.handles SET path = 'a/../../b'"),
        ("handles_kind", "UPDATE tidegate.handles SET kind = 'PICKLE'"),
        ("handles_sizes", "UPDATE tidegate.handles SET bytes = -1"),
        ("handles_created_before", "UPDATE tidegate.handles SET created_by = 2"),
        ("handles_key_groups", "UPDATE tidegate.handles SET first_key_group = NULL"),
        ("handles_key_groups", "UPDATE tidegate.handles SET first_key_group = 64"),
        (
            "pipelines_committer",
            "INSERT INTO tidegate.pipelines (pipeline_id, committer_seen_at) VALUES ('p', now())",
        ),
        ("deletion_queue_owner", "INSERT INTO tidegate.deletion_queue VALUES ('flights', DEFAULT, 'x', 'y')"),
        (
            "deletion_queue_given_up_by",
            "INSERT INTO tidegate.deletion_queue VALUES ('flights', DEFAULT, 'storage', 'y', 0)",
        ),
        ("compactions_replaces", f"{COMPACTION} VALUES ('flights', 'carriers', 0, 'p', 'RUN', 1, 1, '', 1, '{{}}')"),
        ("compactions_path_confined", f"{COMPACTION} VALUES ('flights', 'o', 0, '/p', 'RUN', 1, 1, '', 1, '{{a}}')"),
    ],
)
def test_illegal_parts_of_a_checkpoint_are_refused(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    acknowledged(store, {FIRST: [handle("run", 1)]})
    if rule == "subtasks_checkpoint_fkey":
        without_guards(connection, "subtasks", "handles")
    assert rule_broken_by(connection, statement) == rule


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("pipelines_region", "region_attempt = -1"),
        ("pipelines_region", "region_started_at = now()"),
        ("pipelines_region", "region_attempt = 1, region_started_at = now()"),
        ("pipelines_region", "region_attempt = 1, region_seen_at = now()"),
        (
            "pipelines_region",
            "region_attempt = 2, region_started_at = now(), region_seen_at = now(), region_ended_at = now()",
        ),
        ("pipelines_region_swept", "region_swept = 1"),
        ("pipelines_region_swept", "region_swept = -1"),
        ("pipelines_restored", "restores = 1"),
        ("pipelines_restored", "restored_checkpoint = 1, restored_at = now()"),
        ("pipelines_restored", "restores = 1, restored_checkpoint = 2, restored_at = now()"),
        ("pipelines_restored", "restores = 1, restored_checkpoint = 1"),
    ],
)
def test_an_illegal_region_or_restore_is_refused(
    store: PostgresCheckpointStore, connection: Connection, rule: str, change: str
) -> None:
    triggered(store)
    assert rule_broken_by(connection, UPDATE_PIPELINE + change) == rule


@pytest.mark.parametrize("change", ["commit_attempt = 6", "commit_attempt = -1", "committer_seen_at = now()"])
def test_an_attempt_at_committing_is_given_out_once(
    store: PostgresCheckpointStore, connection: Connection, change: str
) -> None:
    triggered(store)
    connection.execute(text(UPDATE_PIPELINE + "commit_attempt = 7, committer_seen_at = now()"))
    connection.execute(text(UPDATE_PIPELINE + "committer_seen_at = now()"))
    connection.execute(text(UPDATE_PIPELINE + "committer_seen_at = NULL"))
    assert rule_broken_by(connection, UPDATE_PIPELINE + change) == "pipelines_attempts_grow"


def without_guards(connection: Connection, *tables: str) -> None:
    """What the owner of the schema can do, until the transaction is rolled back."""
    for table in tables:
        connection.execute(text(f"ALTER TABLE tidegate.{table} DISABLE TRIGGER USER"))


def rule_broken_by(connection: Connection, statement: str) -> str | None:
    with pytest.raises(IntegrityError) as caught:
        connection.execute(text(statement))
    name: str | None = caught.value.orig.diag.constraint_name
    return name
