"""`tidegate doctor`: each thing is ok, or has the command that mends it."""

import json
import os
from pathlib import Path

import pytest
from commands import CommandHere

from tidegate.cli.exit_codes import ExitCode
from tidegate.project.scaffold import begin
from tidegate.protocol.facts.errors import NotInstalledError
from tidegate.spark.session.installed import check_pair

EXTRAS = ["spark", "quality", "postgres", "iceberg", "kafka", "sketches", "airflow"]
ALL = ["python", "java", *EXTRAS, "pipelines", "storage", "database", "schema", "clock"]


@pytest.fixture
def doctor(tmp_path):
    """Examines a fresh project under changed variables: the exit code, and the findings by name."""
    begin(tmp_path / "shop")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    here = CommandHere(tmp_path / "shop", kept | {"HOME": str(tmp_path), "COLUMNS": "500"})

    def examine(**changes):
        ended = here("doctor", "-o", "json", **changes)
        return ended.returncode, {each["what"]: each for each in json.loads(ended.stdout)}

    examine.home = tmp_path / "shop"
    return examine


def wrong(findings):
    return {what: finding["mend"] for what, finding in findings.items() if finding["ok"] is False}


def test_a_machine_that_has_everything_is_said_to(doctor, postgres_url):
    code, findings = doctor(TIDEGATE_DATABASE_URL=postgres_url)
    assert list(findings) == [*ALL, "connections", "plugin"]
    assert wrong({what: findings[what] for what in ALL}) == {}
    assert code == (ExitCode.USAGE if wrong(findings) else ExitCode.OK)


def test_a_fresh_project_has_no_database_yet_and_needs_none(doctor):
    _, findings = doctor()
    assert (findings["database"]["ok"], findings["database"]["mend"]) == (None, "tidegate db start")
    assert not {"schema", "clock"} & findings.keys()
    assert not (doctor.home / ".tidegate" / "postgres").exists()


def test_what_is_wrong_comes_with_the_command_that_mends_it(doctor, postgres_server, tmp_path):
    postgres_server.create_database("empty")
    (tmp_path / "file").touch()
    (doctor.home / "include" / "shop" / "pipelines.py").write_text("1 / 0\n")
    client = doctor.home / "pyspark_client-4.1.0.dist-info"
    client.mkdir()
    (client / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.1.0\n")
    iceberg = doctor.home / "pyiceberg-0.99.0.dist-info"
    iceberg.mkdir()
    (iceberg / "METADATA").write_text("Metadata-Version: 2.1\nName: pyiceberg\nVersion: 0.99.0\n")
    code, findings = doctor(
        TIDEGATE_DATABASE_URL=postgres_server.url("empty"),
        TIDEGATE_STORAGE=str(tmp_path / "file" / "below"),
        JAVA_HOME=str(tmp_path),
    )
    mended = wrong(findings)
    for what in ("plugin", "connections"):  # they depend on what else this process has imported
        mended.pop(what, None)
    assert code == ExitCode.USAGE
    assert mended == {
        "java": "pip install 'tidegate[embedded]'",
        "spark": "pip install --force-reinstall --no-deps pyspark==4.1.0 pyspark-client==4.1.0",
        "iceberg": "pip install --upgrade 'tidegate[iceberg]'",
        "pipelines": "tidegate check example",
        "storage": f"mkdir -p {tmp_path}/file/below",
        "schema": "tidegate db upgrade",
    }


def test_a_stopped_server_is_named(doctor):
    _, findings = doctor(TIDEGATE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert (findings["database"]["ok"], "schema" in findings) == (False, False)


def test_an_unequal_pair_starts_no_session(tmp_path: Path, monkeypatch):
    client = tmp_path / "pyspark_client-4.1.0.dist-info"
    client.mkdir()
    (client / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotInstalledError, match=r"pyspark-client 4\.1\.0 are installed. They share a folder"):
        check_pair()
