"""The migrations lead to exactly what `tables` declares, also when several processes run them at once."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres import migrate
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import VERSION_TABLE, check, config, is_behind, needed_version, upgrade, versions
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.postgres.tables import SCHEMA, metadata
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, SubtaskId

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


_ROWS_OF_THE_FIRST_VERSION = (
    "INSERT INTO tidegate.pipelines (pipeline_id) VALUES ('p')",
    "UPDATE tidegate.pipelines SET last_checkpoint_id = 1",
    """
    INSERT INTO tidegate.checkpoints (pipeline_id, checkpoint_id, request_id, periodic, status, phase, triggered_at,
        deadline, num_subtasks) VALUES ('p', 1, 'r', true, 'IN_PROGRESS', 'TRIGGERED', now(), now(), 1)""",
    """
    INSERT INTO tidegate.subtasks (pipeline_id, checkpoint_id, operator_id, subtask_index, attempt)
    VALUES ('p', 1, 'op', 0, 1)""",
)


@pytest.fixture
def first(empty: str) -> Iterator[Engine]:
    """A database that the first release has made and used."""
    engine = looking_from_outside(empty)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA tidegate"))
        command.upgrade(config(connection), "0001")
        for statement in _ROWS_OF_THE_FIRST_VERSION:
            connection.execute(text(statement))
    yield engine
    engine.dispose()


def is_as_it_was(engine: Engine) -> None:
    store = PostgresCheckpointStore(engine)
    record = store.checkpoint("p", 1)
    assert record is not None
    assert (record.request_id, record.kind) == ("r", CheckpointKind.CHECKPOINT)
    assert {subtask: found.attempt for subtask, found in store.subtasks("p", 1).items()} == {SubtaskId("op", 0): 1}
    assert store.pipeline("p") == PipelineRecord("p", PipelineStatus.CREATED)


def test_a_database_of_the_first_release_keeps_what_it_holds(first: Engine, empty: str) -> None:
    upgrade(empty)
    check(first)
    is_as_it_was(first)


_SECOND = """
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("ALTER TABLE tidegate.pipelines ADD COLUMN colour text NOT NULL DEFAULT 'blue'")
"""


def test_a_second_migration_is_asked_for_keeps_what_the_first_holds_and_is_refused_by_the_first(
    first: Engine, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(first)
    with monkeypatch.context() as patched:
        later = shutil.copytree(migrate.MIGRATIONS, tmp_path / "migrations")
        (later / "versions" / "0002_made_up.py").write_text(_SECOND)
        patched.setattr(migrate, "MIGRATIONS", later)
        versions.cache_clear()
        with pytest.raises(ConfigurationError, match="version 0001, but this library needs 0002"):
            check(first)
        assert is_behind(empty)
        upgrade(empty)
        check(first)
        is_as_it_was(first)
        with first.connect() as connection:
            assert connection.execute(text("SELECT colour FROM tidegate.pipelines")).scalar() == "blue"
    versions.cache_clear()
    for attempt in (lambda: check(first), lambda: upgrade(empty)):
        with pytest.raises(ConfigurationError, match=r"at version 0002.* A newer Tidegate"):
            attempt()
