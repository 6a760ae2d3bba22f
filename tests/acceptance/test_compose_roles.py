"""The roles of docker-compose.yaml: its own script, `make env`'s own passwords and `tidegate db upgrade`
on a real Postgres."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest
from desks import Desk
from psycopg2 import errors, sql
from public_directories import public_directory
from sqlalchemy import URL, make_url

from tidegate.embedded_postgres.accounts import account_for
from tidegate.embedded_postgres.binaries import find_binaries
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import check
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status

FORBIDDEN = [
    "DELETE FROM tidegate.figures",
    "DELETE FROM tidegate.checkpoints",
    "TRUNCATE tidegate.handles CASCADE",
    "ALTER TABLE tidegate.checkpoints DISABLE TRIGGER ALL",
    "ALTER TABLE tidegate.checkpoints ADD COLUMN mine int",
    "DROP SCHEMA tidegate CASCADE",
    "CREATE TABLE tidegate.mine (n int)",
    "CREATE DATABASE mine",
    "ALTER ROLE tidegate PASSWORD 'mine'",
    "SET ROLE tidegate",
]


class Containers:
    """What Compose would run and with which environment, on this machine and against the server on `port`."""

    def __init__(self, services: dict, settings: dict[str, str], port: int, home: Path) -> None:
        self.services, self.settings, self.port, self.home = services, settings, port, home

    def environment(self, name: str) -> dict[str, str]:
        there = {key: self._filled(str(value)) for key, value in self.services[name]["environment"].items()}
        return {key: value.replace("@postgres:5432/", f"@127.0.0.1:{self.port}/") for key, value in there.items()}

    def _filled(self, value: str) -> str:
        return re.sub(r"\$\{(\w+)[^}]*\}", lambda match: self.settings[match[1]], value)

    def run(self, name: str) -> None:
        account = account_for(self.home)
        programs = [find_binaries(account, None).directory, Path(sys.executable).parent]
        environment = {
            **self.environment(name),
            **{"PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]), "AIRFLOW_HOME": str(self.home)},
            **(
                {"PGHOST": "127.0.0.1", "PGPORT": str(self.port)}
                if name == "roles"
                else {"TIDEGATE_HOME": str(self.home)}
            ),
        }
        words = [word.replace("$$", "$") for word in self.services[name]["command"]]
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]

    def running_url(self) -> URL:
        """Where the connection `tidegate_default` of the scheduler leads."""
        given = json.loads(self.environment("scheduler")["AIRFLOW_CONN_TIDEGATE_DEFAULT"])
        assert (given["host"], given["port"]) == ("postgres", 5432)
        return URL.create(
            "postgresql+psycopg2", given["login"], given["password"], "127.0.0.1", self.port, given["schema"]
        )

    def airflow_url(self) -> URL:
        return make_url(self.environment("scheduler")["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])

    def owner_url(self) -> URL:
        return make_url(self.environment("init")["TIDEGATE_DATABASE_URL"])


def settings_of(directory: Path, project: Path) -> dict[str, str]:
    for name in ("Makefile", ".env.example"):
        shutil.copy(project / name, directory / name)
    made = subprocess.run(["make", "env"], cwd=directory, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    lines = (directory / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


@pytest.fixture(scope="module")
def containers(services, project, tmp_path_factory):
    """A server as the image leaves it at its first start, on which `roles` and `init` have run."""
    settings = settings_of(tmp_path_factory.mktemp("env"), project)
    image = services["postgres"]["environment"]
    with public_directory("tidegate-compose-") as home:
        server = EmbeddedPostgres(home / "postgres", fsync=False)
        server.start()
        owner = make_url(server.url())
        assert owner.username == image["POSTGRES_USER"]
        password = settings["POSTGRES_PASSWORD"]
        administer(owner, f"CREATE DATABASE {image['POSTGRES_DB']}")
        administer(owner, sql.SQL("ALTER ROLE tidegate PASSWORD {}").format(sql.Literal(password)))
        found = Containers(services, settings, owner.port, tmp_path_factory.mktemp("airflow"))
        found.run("roles")
        found.run("init")
        yield found


def administer(owner: URL, statement) -> None:
    with_session(owner.set(database="postgres"), statement)


def with_session(url: URL, statement) -> list:
    connection = psycopg2.connect(url.set(drivername="postgresql").render_as_string(hide_password=False))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_the_running_role_takes_a_checkpoint_and_can_undo_none(containers) -> None:
    engine = connect(containers.running_url())
    check(engine)
    store = PostgresCheckpointStore(engine)
    desk = Desk(store)
    desk.complete(desk.ask("r1").checkpoint_id)
    for statement in FORBIDDEN:
        with pytest.raises(errors.InsufficientPrivilege):
            with_session(containers.running_url(), statement)
    [record] = store.history("p", 9)
    assert record.status is Status.COMPLETED
    assert store.subtasks("p", record.checkpoint_id)
    store.close()


def test_the_running_role_makes_tables_where_sinks_have_them(containers) -> None:
    for schema in ("public", "tidegate_sinks"):
        made = sql.SQL("CREATE TABLE {table} (n int); DROP TABLE {table}").format(table=sql.Identifier(schema, "mine"))
        with_session(containers.running_url(), made)


def test_airflow_has_a_database_of_its_own_and_nothing_else(containers) -> None:
    url = containers.airflow_url()
    assert with_session(url, "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'") == [("airflow",)]
    for statement in ("SELECT FROM tidegate.checkpoints", "CREATE SCHEMA mine"):
        with pytest.raises(errors.InsufficientPrivilege):
            with_session(url.set(database="tidegate"), statement)
    with pytest.raises(errors.InsufficientPrivilege):
        with_session(containers.running_url().set(database="airflow"), "SELECT FROM connection")


def test_none_of_them_is_anybody_special(containers) -> None:
    query = """
        SELECT rolname, rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls
        FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1
    """
    assert with_session(containers.owner_url(), query) == [
        ("airflow", False),
        ("tidegate", True),
        ("tidegate_runner", False),
    ]


def test_another_start_changes_nothing_and_a_new_password_is_taken_over(containers) -> None:
    """Passwords with everything in them that means something to SQL, to psql or to a shell."""
    containers.run("roles")
    assert with_session(containers.running_url(), "SELECT count(*) FROM tidegate.pipelines")
    before, new = containers.settings["TIDEGATE_RUNNER_PASSWORD"], "a'b\\c:d$e`f\"g;-- %="
    containers.settings["TIDEGATE_RUNNER_PASSWORD"] = new
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        with_session(containers.owner_url().set(username="tidegate_runner", password=new), "SELECT 1")
    containers.run("roles")
    assert with_session(containers.owner_url().set(username="tidegate_runner", password=new), "SELECT 1") == [(1,)]
    containers.settings["TIDEGATE_RUNNER_PASSWORD"] = before
    containers.run("roles")


def test_only_what_makes_roles_and_tables_knows_the_owner(services) -> None:
    knowing = {name for name, service in services.items() if "POSTGRES_PASSWORD" in json.dumps(service)}
    assert knowing == {"postgres", "roles", "init"}
    assert all(services[name]["restart"] == "no" for name in ("roles", "init"))
