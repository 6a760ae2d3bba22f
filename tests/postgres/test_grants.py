"""The role that runs pipelines may run them, and nothing else."""

import psycopg2
import pytest
from desks import Desk
from psycopg2 import errors
from sqlalchemy import create_engine, make_url, text
from user_actions import resume, suspend

from tidegate.embedded_postgres.locate import start_embedded
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import check, upgrade
from tidegate.postgres.roles import RUNNING_ROLE
from tidegate.postgres.tables import metadata
from tidegate.protocol.facts.errors import ConfigurationError

FORBIDDEN = [
    "CREATE TABLE tidegate.mine (n int)",
    "CREATE SCHEMA mine",
    "CREATE DATABASE mine",
    "CREATE ROLE mine",
    "DROP TABLE tidegate.verdicts",
    "ALTER TABLE tidegate.checkpoints DISABLE TRIGGER ALL",
    "ALTER TABLE tidegate.checkpoints DROP CONSTRAINT checkpoints_stage",
    "DROP FUNCTION tidegate.refuse_illegal_transition() CASCADE",
    "DELETE FROM tidegate.checkpoints",
    "DELETE FROM tidegate.folded_operators",
    "DELETE FROM tidegate.folded_totals",
    "UPDATE tidegate.folded_operators SET state_size = 0",
    "UPDATE tidegate.handles SET path = 'x'",
    "DELETE FROM tidegate.pipelines",
    "DELETE FROM tidegate.endpoints",
    "UPDATE tidegate.schema_version SET version_num = '9999'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SET session_replication_role = replica",
    "SET ROLE tidegate",
    *(f"TRUNCATE {table.fullname} CASCADE" for table in metadata.sorted_tables),
]


def test_it_runs_a_pipeline_from_its_first_checkpoint_to_the_last(store):
    desk = Desk(store, retained=1)
    for number in range(3):
        desk.complete(desk.ask(f"r{number}").checkpoint_id)
    suspend(desk.coordinator)
    resume(desk.coordinator)
    desk.coordinator.cancel()
    assert [record.status for record in store.history("p", 9)] != []


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_it_may_do_nothing_else(shared, statement):
    with shared.cursor() as cursor, pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)):
        cursor.execute(statement)


@pytest.fixture(scope="module")
def shared(postgres_server):
    """The running role's connection to one database, in which nothing of this can be done."""
    postgres_server.create_database("test_grants")
    upgrade(postgres_server.url("test_grants"))
    connection = psycopg2.connect(postgres_server.running_url("test_grants").replace("+psycopg2", ""))
    connection.autocommit = True
    yield connection
    connection.close()


def test_it_is_nobody_special(shared):
    with shared.cursor() as cursor:
        cursor.execute("SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls FROM pg_roles"
                       " WHERE rolname = current_user")  # fmt: skip
        assert cursor.fetchall() == [(False,) * 5]


def test_a_running_role_without_rights_gets_them_by_an_upgrade(postgres_server, running_url):
    running = make_url(running_url)
    owner = make_url(postgres_server.url(running.database))
    engine = create_engine(owner)
    with engine.begin() as connection:
        connection.execute(text(f"REVOKE ALL ON ALL TABLES IN SCHEMA tidegate FROM {RUNNING_ROLE}"))
        connection.execute(text(f"REVOKE ALL ON SCHEMA tidegate FROM {RUNNING_ROLE}"))
    engine.dispose()
    with pytest.raises(ConfigurationError, match="Run `tidegate db upgrade`"):
        check(connect(running))
    upgrade(owner)
    check(connect(running))


def test_the_embedded_server_gives_the_running_role_for_work_and_the_owner_for_upgrades(postgres_server):
    assert isinstance(postgres_server, EmbeddedPostgres)
    for owner, user in ((False, RUNNING_ROLE), (True, "tidegate")):
        assert make_url(start_embedded(postgres_server.data_dir, owner)).username == user
    secret = postgres_server.data_dir / "running-password"
    assert secret.stat().st_mode & 0o777 == 0o600
