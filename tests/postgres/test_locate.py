"""Where the database is: the order of the places, and that no error shows a password."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import URL

from tidegate.embedded_postgres import locate
from tidegate.embedded_postgres.locate import locate_database
from tidegate.postgres.engine import database_url
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError
from tidegate.settings import is_project


class Connection:
    """What `airflow.sdk.Connection` has, and no more."""

    def __init__(self, conn_type: str = "postgres", **extra: object) -> None:
        self.conn_type, self.login, self.password = conn_type, "airflow", "p@ss:w/rd"
        self.host, self.port, self.schema, self.extra_dejson = "db", 5433, "meta", extra


def test_the_argument_comes_before_the_environment() -> None:
    found = locate_database("postgresql://here/one", {"TIDEGATE_DATABASE_URL": "postgresql://there/two"})
    assert (found.host, found.database) == ("here", "one")


def test_the_environment_comes_before_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "airflow_connection", Connection)
    found = locate_database(None, {"TIDEGATE_DATABASE_URL": "postgres://there/two", "AIRFLOW_HOME": "/opt/airflow"})
    assert (found.drivername, found.host) == ("postgresql+psycopg2", "there")


@pytest.mark.parametrize("kind", ["postgres", "tidegate"])
def test_airflows_connection_comes_before_the_embedded_server(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    given = Connection(kind, sslmode="require", cursor="dictcursor")
    monkeypatch.setattr(locate, "airflow_connection", lambda: given)
    found = locate_database(None, {"AIRFLOW_HOME": "/opt/airflow"})
    assert found == URL.create(
        "postgresql+psycopg2", "airflow", "p@ss:w/rd", "db", 5433, "meta", query={"sslmode": "require"}
    )


def test_a_connection_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "airflow_connection", lambda: Connection("mysql"))
    with pytest.raises(ConfigurationError, match=r"'tidegate_default' is of type 'mysql'") as caught:
        locate_database(None, {"AIRFLOW_HOME": "/opt/airflow"})
    assert "p@ss" not in str(caught.value)


def test_the_embedded_server_lies_below_the_projects_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(locate, "airflow_connection", lambda: None)
    monkeypatch.setattr(
        locate, "start_embedded", lambda path, owner: asked.append(path) or "postgresql://embedded/tidegate"
    )
    assert locate_database(None, {"TIDEGATE_HOME": str(tmp_path)}, writes=True).host == "embedded"
    assert asked == [tmp_path.resolve() / ".tidegate" / "postgres"]


def test_only_what_writes_in_a_project_starts_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "has_airflow", lambda _: False)
    monkeypatch.chdir(tmp_path)
    looked = "TIDEGATE_DATABASE_URL, which is not set; no AIRFLOW_HOME; an embedded database in"
    for environment, writes, said in (
        ({"TIDEGATE_HOME": str(tmp_path)}, False, "The first `tidegate run` makes one."),
        ({}, True, r"is no project either: it has no pyproject.toml with \[tool.tidegate\]"),
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            locate_database(None, environment, writes=writes)
        assert looked in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".tidegate" / "postgres").mkdir(parents=True)
    stopped: tuple[tuple[dict[str, str], bool], ...] = (({"TIDEGATE_HOME": str(tmp_path)}, False), ({}, True))
    for environment, writes in stopped:
        with pytest.raises(StoreUnavailableError, match="`tidegate db start` starts it"):
            locate_database(None, environment, writes=writes)


@pytest.mark.parametrize(
    ("written", "project"),
    [('[tool.tidegate.pipelines]\na = "b:c"', True), ("[tool.other]", False), ("no toml", False)],
)
def test_a_project_is_where_somebody_has_said_so(tmp_path: Path, monkeypatch, written: str, project: bool) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_project({})
    (tmp_path / "pyproject.toml").write_text(written)
    assert is_project({}) is project
    assert is_project({"TIDEGATE_HOME": str(tmp_path)})


def test_an_airflow_task_does_not_make_a_database_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "airflow_connection", lambda: None)
    monkeypatch.setattr(locate, "_in_airflow_task", lambda: True)
    with pytest.raises(ConfigurationError, match=r"no connection 'tidegate_default', no TIDEGATE_DATABASE_URL"):
        locate_database(None, {"TIDEGATE_HOME": str(tmp_path)}, writes=True)
    assert list(tmp_path.iterdir()) == []


def test_airflow_itself_is_asked_through_its_task_sdk(tmp_path: Path) -> None:
    program = (
        "import sys; from tidegate.embedded_postgres.locate import locate_database;"
        "assert not any(name.partition('.')[0] == 'airflow' for name in sys.modules), 'imported too early';"
        "print(locate_database().render_as_string(hide_password=False))"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))},
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW_CONN_TIDEGATE_DEFAULT": "postgres://user:p%40ss@db:5433/meta?sslmode=require",
    }
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "postgresql+psycopg2://user:p%40ss@db:5433/meta?sslmode=require"


@pytest.mark.parametrize("written", ["postgres://h/d", "postgresql://h/d", "postgresql+asyncpg://h/d"])
def test_urls_are_taken_as_they_are_commonly_written(written: str) -> None:
    assert database_url(written) == URL.create("postgresql+psycopg2", host="h", database="d")


@pytest.mark.parametrize(
    ("written", "said"), [("user:secret@host", "cannot be parsed"), ("mysql://user:secret@host/db", "names 'mysql'")]
)
def test_what_is_no_postgres_url_is_refused_without_showing_it(written: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        database_url(written)
    assert "secret" not in str(caught.value)
