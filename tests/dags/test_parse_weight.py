"""What a DAG parse costs: Airflow parses dags/ every few seconds and plugins/ in every component."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
HEAVY = (
    *("pyspark", "pandas", "numpy", "pyarrow", "great_expectations", "asyncpg", "psycopg2"),
    *("openlineage", "opentelemetry", "requests", "urllib3", "httpx2", "confluent_kafka", "fastavro"),
)
FOLDERS = ("dags", "plugins", "include/tidegate/airflow")

#: Imports what Airflow has imported by itself when it parses, then every file, and prints what that added.
PARSE = """
import json, sys
from importlib.util import module_from_spec, spec_from_file_location
import airflow.sdk, airflow.plugins_manager, airflow.api_fastapi.core_api.security
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Asset, BaseHook, BaseOperatorLink
from airflow.triggers.base import BaseTrigger
added = {}
for path in sys.argv[1:]:
    before = set(sys.modules)
    spec = spec_from_file_location("parsed_" + path.replace("/", "_").removesuffix(".py"), path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    added[path] = sorted(set(sys.modules) - before)
print(json.dumps(added))
"""


@pytest.fixture(scope="module")
def added(tmp_path_factory) -> dict[str, list[str]]:
    files = [path for folder in FOLDERS for path in sorted((PROJECT / folder).glob("*.py"))]
    return parsed(tmp_path_factory.mktemp("airflow"), *(str(path.relative_to(PROJECT)) for path in files))


def parsed(home: Path, *files: str, **more: str) -> dict[str, list[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", PARSE, *files],
        env={**os.environ, "AIRFLOW_HOME": str(home), **more}, cwd=PROJECT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_airflow_parses_imports_nothing_heavy(folder, added):
    of_folder = {path: names for path, names in added.items() if path.startswith(f"{folder}/")}
    assert of_folder, f"{folder}/ holds nothing to parse"
    assert not heavy(of_folder)


CLICKS = """
from clicks.web import clicks_pipeline
from tidegate.airflow import checkpoint_dag

dag = checkpoint_dag(clicks_pipeline(), schedule="* * * * *")
"""


def test_a_pipeline_of_topics_is_parsed_without_brokers_or_a_connection(tmp_path):
    (tmp_path / "clicks_dag.py").write_text(CLICKS)
    added = parsed(tmp_path, str(tmp_path / "clicks_dag.py"))
    assert "tidegate.kafka.source" in added[str(tmp_path / "clicks_dag.py")]
    assert not heavy(added)


def heavy(added):
    found = {path: [name for name in names if name.partition(".")[0] in HEAVY] for path, names in added.items()}
    return {path: names for path, names in found.items() if names}
