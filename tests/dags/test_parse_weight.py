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
    *("openlineage", "opentelemetry", "requests", "urllib3", "httpx2"),
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
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow"))}
    parsed = subprocess.run(
        [sys.executable, "-c", PARSE, *(str(path.relative_to(PROJECT)) for path in files)],
        env=environment, cwd=PROJECT, capture_output=True, text=True,
    )  # fmt: skip
    assert parsed.returncode == 0, parsed.stderr
    return json.loads(parsed.stdout.splitlines()[-1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_airflow_parses_imports_nothing_heavy(folder, added):
    parsed = {path: names for path, names in added.items() if path.startswith(f"{folder}/")}
    assert parsed, f"{folder}/ holds nothing to parse"
    assert not {
        path: heavy for path, names in parsed.items() if (heavy := [n for n in names if n.partition(".")[0] in HEAVY])
    }
