"""The migrations lead to exactly what `tables` declares, also when several processes run them at once."""

import subprocess
from collections.abc import Iterator

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import VERSION_TABLE, check, config, needed_version, upgrade, versions
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.postgres.tables import SCHEMA, metadata
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind

# Everything that decides what the schema accepts and how it answers, as PostgreSQL itself prints it.
CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation,
            is_generated, generation_expression
        FROM information_schema.columns WHERE table_schema = 'tidegate' AND table_name <> 'schema_version'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'tidegate'::regnamespace
            AND conrelid::regclass::text NOT LIKE '%version' AND contype <> 'n'""",
    "indexes": """
        SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'tidegate' AND tablename <> 'schema_version'""",
    "triggers": """
        SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger
        WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'tidegate.%'""",
    "functions": """
        SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'tidegate'::regnamespace""",
    "views": """
        SELECT viewname, definition FROM pg_views WHERE schemaname = 'tidegate'""",
    "storage": """
        SELECT relname, reloptions::text FROM pg_class
        WHERE relnamespace = 'tidegate'::regnamespace AND relkind = 'r' AND relname <> 'schema_version'""",
}


def catalogue(connection: Connection) -> dict[str, set[tuple[object, ...]]]:
    return {name: {tuple(row) for row in connection.execute(text(query))} for name, query in CATALOGUE.items()}


@pytest.fixture
def empty(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a database without our schema."""
    name = "test_without_schema"
    postgres_server.create_database(name)
    yield postgres_server.url(name)
    engine = create_engine(postgres_server.url("postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE test_without_schema WITH (FORCE)"))


def looking_from_outside(url: str) -> Engine:
    """The embedded server's user is called like our schema, which is then first in its search path."""
    return connect(make_url(url).update_query_dict({"options": "-c search_path=public"}))


@pytest.fixture
def migrated(postgres_url: str) -> Iterator[Engine]:
    engine = looking_from_outside(postgres_url)
    yield engine
    engine.dispose()


def test_migrations_and_table_definitions_are_the_same(empty: str, migrated: Engine) -> None:
    declared = looking_from_outside(empty)
    with declared.begin() as connection:
        connection.execute(text("CREATE SCHEMA tidegate"))
        metadata.create_all(connection)
        wanted = catalogue(connection)
    declared.dispose()
    with migrated.connect() as connection:
        found = catalogue(connection)
    assert all(wanted.values())
    for name, rows in wanted.items():
        assert found[name] == rows, name


def test_alembic_finds_nothing_left_to_migrate(migrated: Engine) -> None:
    with migrated.connect() as connection:
        options = {
            "include_schemas": True,
            "version_table": VERSION_TABLE,
            "version_table_schema": SCHEMA,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
        }
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_the_versions_of_the_file_names_are_those_that_alembic_follows() -> None:
    scripts = ScriptDirectory.from_config(config())
    assert [script.revision for script in scripts.walk_revisions()] == list(reversed(versions()))
    assert scripts.get_current_head() == needed_version()


def test_upgrading_again_changes_nothing(migrated: Engine, postgres_url: str) -> None:
    with migrated.connect() as connection:
        before = catalogue(connection)
    upgrade(postgres_url)
    check(migrated)
    with migrated.connect() as connection:
        assert catalogue(connection) == before


def test_several_processes_upgrade_at_once(empty: str, quick_python: list[str]) -> None:
    program = "import sys; from tidegate.postgres.migrate import upgrade; upgrade(sys.stdin.read())"
    processes = [
        subprocess.Popen([*quick_python, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(empty)
        process.stdin.close()
    for process in processes:
        assert process.stderr is not None
        complaints = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) == 0, complaints
    engine = connect(empty)
    check(engine)
    engine.dispose()


def test_a_database_without_schema_is_named_with_what_to_do(empty: str) -> None:
    engine = connect(empty)
    with pytest.raises(ConfigurationError, match=r"test_without_schema.*Run `tidegate db upgrade`") as caught:
        check(engine)
    engine.dispose()
    assert str(engine.url.password) not in str(caught.value)


def test_an_older_schema_asks_for_the_upgrade_and_keeps_what_it_holds(empty: str) -> None:
    engine = looking_from_outside(empty)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA tidegate"))
        command.upgrade(config(connection), "0001")
        connection.execute(text("INSERT INTO tidegate.pipelines VALUES ('p', 1)"))
        connection.execute(
            text("""
            INSERT INTO tidegate.checkpoints (pipeline_id, checkpoint_id, request_id, periodic, status, phase,
                triggered_at, deadline, num_subtasks)
            VALUES ('p', 1, 'r', true, 'IN_PROGRESS', 'TRIGGERED', now(), now(), 1)""")
        )
    newest = needed_version()
    with pytest.raises(
        ConfigurationError, match=f"at version 0001, but this library needs {newest}. Run `tidegate db upgrade`"
    ):
        check(engine)
    upgrade(empty)
    check(engine)
    store = PostgresCheckpointStore(engine)
    record = store.checkpoint("p", 1)
    assert record is not None
    assert (record.request_id, record.kind) == ("r", CheckpointKind.CHECKPOINT)
    assert store.pipeline("p") == PipelineRecord("p", PipelineStatus.CREATED)
    store.close()


_OLD_CHECKPOINTS = """
INSERT INTO tidegate.checkpoints (pipeline_id, checkpoint_id, request_id, periodic, status, phase, triggered_at,
    deadline, num_subtasks, num_acknowledged, acknowledged_at, validated_at, completed_at, metadata_path, state_size)
SELECT 'p', n, request, true, status, phase, at, at, 2, 2, at + interval '3 seconds', done, done, path, 7
FROM (VALUES (1, 'my.dag-1/scheduled__a/b/20260101T000000.000000', 'DISCARDED', 'VALIDATED', now(),
        'p/chk-1/_metadata'),
    (2, 'manual:1', 'COMPLETED', 'VALIDATED', now(), 'p/chk-2/_metadata'),
    (3, 'manual:2', 'IN_PROGRESS', 'ACKNOWLEDGED', NULL, NULL))
    AS c (n, request, status, phase, done, path), (SELECT now() AS at) AS t
"""
_OLD_SUBTASKS = """
INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index, attempt, acknowledged_at,
    processed_bytes, rows_in, rows_out, sync_duration)
SELECT 'p', n, operator, i, 1, now(), b, 10, 4, -1
FROM generate_series(1, 3) AS n, (VALUES ('op', 0, -1), ('out-sink', 0, 5)) AS s (operator, i, b)
"""


def test_figures_and_dags_of_earlier_checkpoints_are_there_after_the_upgrade(empty: str) -> None:
    engine = looking_from_outside(empty)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA tidegate"))
        command.upgrade(config(connection), "0012")
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("INSERT INTO tidegate.pipelines (pipeline_id, last_checkpoint_id) VALUES ('p', 3)"))
        connection.execute(text(_OLD_CHECKPOINTS))
        connection.execute(text(_OLD_SUBTASKS))
    upgrade(empty)
    with engine.connect() as connection:
        columns = "checkpoint_id, end_to_end_duration, state_size, processed_data, rows_in, rows_out, sync_duration"
        figures = connection.execute(text(f"SELECT {columns} FROM tidegate.figures ORDER BY 1")).all()  # noqa: S608
        dags = connection.execute(text("SELECT pipeline_id, dag_id FROM tidegate.pipeline_dags")).all()
    engine.dispose()
    assert [tuple(row) for row in figures] == [(1, 3000, 7, 5, 10, 4, -1), (2, 3000, 7, 5, 10, 4, -1)]
    assert [tuple(row) for row in dags] == [("p", "my.dag-1")]


def test_a_newer_schema_asks_for_the_newer_library(migrated: Engine, postgres_url: str) -> None:
    with migrated.begin() as connection:
        connection.execute(text("UPDATE tidegate.schema_version SET version_num = '9999'"))
    for attempt in (lambda: check(migrated), lambda: upgrade(postgres_url)):
        with pytest.raises(ConfigurationError, match="A newer Tidegate upgraded it"):
            attempt()
