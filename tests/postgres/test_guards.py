"""What completed stays, and nothing goes back in time, whatever statement is tried: by SQL,
past every rule in Python."""

from collections.abc import Iterator
from itertools import product

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError
from store_steps import FIRST, PIPELINE, acknowledged, at, completed, fail_checkpoint, handle, triggered

from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PIPELINE_TRANSITIONS, PipelineStatus
from tidegate.protocol.facts.records import Decided, Decision, Verdict

CHECKPOINT, PIPELINES = "UPDATE tidegate.checkpoints SET ", "UPDATE tidegate.pipelines SET "
SUBTASK, HANDLE = "UPDATE tidegate.subtasks SET ", "UPDATE tidegate.handles SET "
VERDICT = "UPDATE tidegate.verdicts SET "
A_HANDLE = """
    INSERT INTO tidegate.handles (pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal, path, kind, rows,
        bytes, checksum, created_by)
    SELECT pipeline_id, checkpoint_id, operator_id, subtask_index, 9, path, kind, 1, 1, '', 1
    FROM tidegate.handles LIMIT 1"""
A_ROLLED_UP_OPERATOR = (
    "INSERT INTO tidegate.folded_operators SELECT pipeline_id, 1, 'x', 1, 1, 0, 1, now(), 0, 0, 0, false, false, 0, 0,"
    " 0, 0, array_fill(0.0::float8, ARRAY[33]) FROM tidegate.pipelines"
)
A_VERDICT = "INSERT INTO tidegate.verdicts VALUES ('flights', 1, 9, 't', 's', true, 1, 0)"
A_CHECKPOINT = """
    INSERT INTO tidegate.checkpoints (pipeline_id, checkpoint_id, request_id, periodic, status, phase, triggered_at,
        deadline, num_subtasks)
    SELECT pipeline_id, 2, 'another', periodic, status, phase, triggered_at, deadline, num_subtasks
    FROM tidegate.checkpoints"""
A_SUBTASK = (
    "INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index) "
    "VALUES ('flights', 1, 'x', 0)"
)


@pytest.fixture
def connection(postgres_url: str, store: PostgresCheckpointStore) -> Iterator[Connection]:
    """A connection to the store's database, rolled back in the end."""
    engine: Engine = connect(postgres_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def rule_broken_by(connection: Connection, statement: str) -> str | None:
    """None if the statement is accepted."""
    savepoint = connection.begin_nested()
    try:
        connection.execute(text(statement))
    except IntegrityError as error:
        name: str | None = error.orig.diag.constraint_name  # type: ignore[union-attr]
        return name
    finally:
        savepoint.rollback()
    return None


def test_a_pipeline_moves_as_the_protocol_says_and_in_no_other_way(
    store: PostgresCheckpointStore, connection: Connection
) -> None:
    triggered(store)
    for before, after in product(PipelineStatus, repeat=2):
        savepoint = connection.begin_nested()
        connection.execute(text("ALTER TABLE tidegate.pipelines DISABLE TRIGGER USER"))
        connection.execute(text(f"{PIPELINES}status = '{before}'"))
        connection.execute(text("ALTER TABLE tidegate.pipelines ENABLE TRIGGER USER"))
        broken = rule_broken_by(connection, f"{PIPELINES}status = '{after}'")
        legal = after is before or after in PIPELINE_TRANSITIONS[before]
        assert broken == (None if legal else "pipelines_legal_transition"), (before, after)
        savepoint.rollback()


NO_PAST = "last_checkpoint_id = 0, forgiven_until = 0, restores = 0, restored_checkpoint = NULL, restored_at = NULL"
OF_A_PIPELINE = [
    ("pipelines_only_forward", PIPELINES + NO_PAST),
    ("pipelines_only_forward", PIPELINES + "last_checkpoint_id = last_checkpoint_id - 1"),
    ("pipelines_only_forward", PIPELINES + "forgiven_until = 0"),
    ("pipelines_only_forward", PIPELINES + "region_attempt = 1, region_swept = 0"),
    ("pipelines_only_forward", PIPELINES + "region_swept = 0"),
    ("pipelines_only_forward", PIPELINES + "restores = 0, restored_checkpoint = NULL, restored_at = NULL"),
    ("pipelines_kept", "DELETE FROM tidegate.pipelines"),
    ("pipelines_kept", "TRUNCATE tidegate.pipelines CASCADE"),
    ("pipelines_begin", "INSERT INTO tidegate.pipelines (pipeline_id, status) VALUES ('q', 'RUNNING')"),
    ("pipelines_begin", "INSERT INTO tidegate.pipelines (pipeline_id, last_checkpoint_id) VALUES ('q', 3)"),
]


@pytest.mark.parametrize(("rule", "statement"), OF_A_PIPELINE)
def test_a_pipeline_never_goes_back(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    completed(store)
    completed(store)
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(1))
        tx.begin_region(at(2))
        tx.mark_regions_swept(1)
        tx.record_restore(1, at(3))
        tx.move_pipeline(PipelineStatus.SUSPENDED, at(4), forgiven_until=1)
    assert rule_broken_by(connection, statement) == rule


def test_only_a_deadline_that_is_corrected_may_lie_before_the_trigger(
    store: PostgresCheckpointStore, connection: Connection
) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as tx:
        assert tx.correct_deadline(1, at(-1))
    assert rule_broken_by(connection, A_CHECKPOINT) == "checkpoints_deadline"
    fail_checkpoint(store, 1)
    with store.transaction(PIPELINE) as tx:
        assert not tx.correct_deadline(1, at(5))


FIXED = [
    *("request_id = 'x'", "periodic = NOT periodic", "kind = 'SAVEPOINT'", "kind = 'SYNC_SAVEPOINT', drain = true"),
    *("triggered_at = triggered_at - interval '1 day'", "operators = '[]'", "num_subtasks = 1, num_acknowledged = 1"),
]
ENDED = [
    *("deadline = deadline + interval '1 day'", "num_finished = 1", "acknowledged_at = now()", "validated_at = now()"),
    *("completed_at = now()", "metadata_path = 'x'", "state_size = 0", "checkpointed_size = 0"),
]
OF_A_CHECKPOINT = [
    *(("checkpoints_fixed", CHECKPOINT + change) for change in FIXED[:-1]),
    *(("checkpoints_ended", CHECKPOINT + change) for change in ENDED),
    ("checkpoints_only_forward", CHECKPOINT + "notified_at = NULL"),
    ("checkpoints_only_forward", CHECKPOINT + "notified_at = now()"),
    ("checkpoints_only_forward", CHECKPOINT + "swept = false"),
    ("checkpoints_kept", "DELETE FROM tidegate.checkpoints"),
    ("checkpoints_kept", "TRUNCATE tidegate.checkpoints CASCADE"),
    ("subtasks_acknowledged", SUBTASK + "position = '{}'"),
    ("subtasks_acknowledged", SUBTASK + "rows_out = 9"),
    ("subtasks_acknowledged", SUBTASK + "attempt = attempt + 1"),
    ("subtasks_kept", "DELETE FROM tidegate.subtasks"),
    ("subtasks_kept", "TRUNCATE tidegate.subtasks"),
    ("subtasks_of_ended", A_SUBTASK),
    ("handles_unchanged", HANDLE + "path = 'x'"),
    ("handles_unchanged", HANDLE + "checksum = ''"),
    ("handles_kept", "DELETE FROM tidegate.handles"),
    ("handles_kept", "TRUNCATE tidegate.handles"),
    ("handles_of_ended", A_HANDLE),
    ("checkpoints_folded", CHECKPOINT + "folded = true"),
    ("folded_operators_of_folded", A_ROLLED_UP_OPERATOR),
    ("verdicts_unchanged", VERDICT + "success = false"),
    ("verdicts_of_ended", "DELETE FROM tidegate.verdicts"),
    ("verdicts_kept", "TRUNCATE tidegate.verdicts"),
    ("verdicts_of_ended", A_VERDICT),
]


@pytest.mark.parametrize(("rule", "statement"), OF_A_CHECKPOINT)
def test_a_completed_checkpoint_stays_as_it_is(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    acknowledged(store, {FIRST: [handle("run", 1)]})
    with store.transaction(PIPELINE) as tx:
        tx.record_verdicts(1, [Verdict(Target.parse("sink:out"), "s", True, 1, 0)])
        tx.advance(1, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(20))
        tx.complete(1, at(30), "flights/chk-1/_metadata", 4000, 1000)
        tx.mark_notified(1, tx.begin_commit(at(40)), at(40))
        tx.mark_swept([1])
    assert rule_broken_by(connection, statement) == rule


@pytest.mark.parametrize(
    ("rule", "statement"),
    [
        ("checkpoints_ended", CHECKPOINT + "failure_message = 'it was nothing'"),
        ("checkpoints_ended", CHECKPOINT + "num_acknowledged = 1"),
        ("subtasks_of_ended", SUBTASK + "acknowledged_at = now(), attempt = 1"),
        ("subtasks_of_ended", SUBTASK + "attempt = attempt + 1"),
        ("subtasks_only_forward", SUBTASK + "attempt = attempt - 1"),
        ("subtasks_only_forward", SUBTASK + "operator_id = 'other-' || operator_id"),
    ],
)
def test_a_failed_checkpoint_takes_nothing_any_more(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    triggered(store)
    fail_checkpoint(store, 1)
    assert rule_broken_by(connection, statement) == rule


@pytest.mark.parametrize(
    ("rule", "statement"),
    [
        ("checkpoints_only_forward", CHECKPOINT + "folded = false"),
        ("folded_unchanged", "UPDATE tidegate.folded_operators SET files = 9"),
        ("folded_kept", "DELETE FROM tidegate.folded_operators"),
        ("folded_totals_grow", "UPDATE tidegate.folded_totals SET failed = 0"),
        ("folded_totals_kept", "DELETE FROM tidegate.folded_totals"),
        ("subtasks_of_ended", A_SUBTASK),
    ],
)
def test_what_was_rolled_up_stays_so(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    triggered(store)
    fail_checkpoint(store, 1)
    with store.transaction(PIPELINE) as tx:
        tx.roll_up([1])
    assert rule_broken_by(connection, statement) == rule


@pytest.mark.parametrize(
    "change",
    [
        "held_until = held_until + interval '1 hour'",
        "held_message = 'it was nothing'",
        "decided_by = 'grace'",
        "decision_comment = NULL",
        "decided_at = decided_at - interval '1 second'",
    ],
)
def test_what_was_held_and_decided_stays_so(
    store: PostgresCheckpointStore, connection: Connection, change: str
) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as tx:
        assert tx.hold(1, at(120), "too late", at(20))
        assert tx.decide(1, Decided(Decision.APPROVED, at(30), "ada", "it is right"), at(900))
    assert rule_broken_by(connection, CHECKPOINT + change) == "checkpoints_decided_once"
    with store.transaction(PIPELINE) as tx:
        tx.complete(1, at(40), "flights/chk-1/_metadata", 4000, 1000)
    assert rule_broken_by(connection, CHECKPOINT + change) is not None


def test_a_role_that_only_runs_cannot_switch_the_rules_off(
    store: PostgresCheckpointStore, connection: Connection
) -> None:
    """A role that may read and write, and does not own the schema."""
    triggered(store)
    connection.execute(text("CREATE ROLE clerk_of_test"))
    connection.execute(text("GRANT USAGE ON SCHEMA tidegate TO clerk_of_test"))
    connection.execute(text("GRANT ALL ON ALL TABLES IN SCHEMA tidegate TO clerk_of_test"))
    connection.execute(text("SET LOCAL ROLE clerk_of_test"))
    assert rule_broken_by(connection, PIPELINES + "last_checkpoint_id = 0") == "pipelines_only_forward"
    for statement in (
        "ALTER TABLE tidegate.pipelines DISABLE TRIGGER USER",
        "SET session_replication_role = replica",
        "DROP TRIGGER pipelines_only_forward ON tidegate.pipelines",
    ):
        savepoint = connection.begin_nested()
        with pytest.raises(Exception, match=r"must be owner|permission denied"):
            connection.execute(text(statement))
        savepoint.rollback()


OF_A_SAVEPOINT = [
    ("checkpoints_exported_once", CHECKPOINT + "location = '/elsewhere'"),
    ("checkpoints_exported_once", CHECKPOINT + "location = NULL, exported_at = NULL, exported_size = NULL"),
    ("checkpoints_exported_once", CHECKPOINT + "exported_size = 9"),
    ("checkpoints_exported", CHECKPOINT + "exported_at = NULL"),
    ("checkpoints_location", CHECKPOINT + "location = ''"),
]


@pytest.mark.parametrize(("rule", "statement"), OF_A_SAVEPOINT)
def test_where_a_savepoint_was_written_stays_so(
    store: PostgresCheckpointStore, connection: Connection, rule: str, statement: str
) -> None:
    checkpoint_id = completed(store)
    with connection.begin_nested():
        connection.execute(text("ALTER TABLE tidegate.checkpoints DISABLE TRIGGER USER"))
        connection.execute(text(f"{CHECKPOINT}kind = 'SAVEPOINT'"))
        connection.execute(text("ALTER TABLE tidegate.checkpoints ENABLE TRIGGER USER"))
    connection.commit()
    with store.transaction(PIPELINE) as tx:
        tx.begin_export(checkpoint_id, "/saved")
    with store.transaction(PIPELINE) as tx:
        assert tx.mark_exported(checkpoint_id, 5, at(60))
        assert tx.mark_exported(checkpoint_id, 6, at(70))
    record = store.checkpoint(PIPELINE, checkpoint_id)
    assert record is not None
    assert (record.location, record.exported_at, record.exported_size) == ("/saved", at(60), 5)
    assert rule_broken_by(connection, statement) == rule


def test_a_checkpoint_is_written_nowhere_else(store: PostgresCheckpointStore, connection: Connection) -> None:
    completed(store)
    assert rule_broken_by(connection, CHECKPOINT + "location = '/saved'") == "checkpoints_location"


IMPORT = "UPDATE tidegate.imports SET "


@pytest.mark.parametrize("change", ["ended_at = NULL", "seen_at = now()", "checkpoint_id = checkpoint_id + 9"])
def test_an_import_that_has_ended_does_not_go_on(
    store: PostgresCheckpointStore, connection: Connection, change: str
) -> None:
    with store.transaction(PIPELINE) as tx:
        checkpoint_id = tx.begin_import(4, at(1))
        assert (checkpoint_id, tx.imports()) == (5, {5: at(1)})
    with store.transaction(PIPELINE) as tx:
        assert tx.touch_import(5, at(2))
        assert (tx.imports(), tx.last_checkpoint_id()) == ({5: at(2)}, 5)
        assert tx.end_import(5, at(3))
        assert not tx.touch_import(5, at(4))
        assert not tx.end_import(5, at(4))
        assert tx.unswept() == {5: at(3)}
    assert rule_broken_by(connection, IMPORT + change) == "imports_ended"
    with store.transaction(PIPELINE) as tx:
        tx.mark_swept([5])
        assert tx.unswept() == {}
