"""The rules of the house (design.md section 2) about who imports what, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "include" / "tidegate"
HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "great_expectations"}


def imports(path, module_level_only=False):
    tree = ast.parse(path.read_text())
    nodes = tree.body if module_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def files(*packages):
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", files("protocol"), ids=lambda p: p.name)
def test_the_protocol_imports_the_standard_library_only_and_nothing_that_has_effects(path):
    effects = {"os", "time", "random", "uuid", "logging", "socket", "subprocess", "threading", "pathlib"}
    for name in imports(path):
        top = name.split(".")[0]
        if top == "tidegate":
            assert name.startswith("tidegate.protocol"), name
        else:
            assert top in sys.stdlib_module_names - effects, name


@pytest.mark.parametrize("path", files("protocol"), ids=lambda p: p.name)
def test_the_protocol_reads_no_clock(path):
    calls = {
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"now", "today", "utcnow"}


ADAPTERS = ["state", "spark", "sources", "sinks", "postgres", "quality"]


@pytest.mark.parametrize("path", files(*ADAPTERS), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_adapters_do_not_know_the_coordinator_or_what_drives_it(path):
    above = ("tidegate.coordinator", "tidegate.assembly", "tidegate.airflow", "tidegate.cli", "tidegate.ui")
    assert not [name for name in imports(path) if name.startswith(above)]


THIRD_PARTY = {
    "state": {"pyspark", "sqlalchemy", "psycopg2", "great_expectations", "airflow", "pandas"},
    "spark": {"sqlalchemy", "psycopg2", "great_expectations", "airflow"},
    "sources": {"sqlalchemy", "psycopg2", "great_expectations", "airflow"},
    "sinks": {"sqlalchemy", "psycopg2", "great_expectations", "airflow"},
    "postgres": {"pyspark", "pyarrow", "great_expectations", "pandas", "numpy"},
    "quality": {"sqlalchemy", "psycopg2", "airflow", "pyarrow"},
}


@pytest.mark.parametrize("package", ADAPTERS)
def test_adapters_do_not_use_one_anothers_libraries(package):
    for path in files(package):
        used = {name.split(".")[0] for name in imports(path)}
        assert not used & THIRD_PARTY[package], path.name


def test_the_coordinator_and_the_definition_know_no_adapter():
    names = [
        "coordinator",
        "continuous",
        "delivery",
        "committing",
        "region_control",
        "restoring",
        "sweeper",
        "graph",
        "pipeline",
        "config",
        "listeners",
        "guarantees",
        "aggregates",
        "expectations",
    ]
    for path in [*(ROOT / f"{name}.py" for name in names), *files("ports")]:
        for imported in imports(path):
            assert not imported.startswith(tuple(f"tidegate.{adapter}" for adapter in ADAPTERS)), (path.name, imported)
            assert imported.split(".")[0] not in HEAVY | {"airflow", "sqlalchemy"}, (path.name, imported)


@pytest.mark.parametrize(
    "module",
    ["tidegate", "tidegate.pipeline", "tidegate.graph", "tidegate.coordinator", "tidegate.assembly",
     "tidegate.sources.files", "tidegate.sinks.parquet", "tidegate.cli.main"],
)  # fmt: skip
def test_importing_what_a_dag_file_imports_loads_nothing_heavy(module):
    script = f"import sys, {module}; print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_file_pickles():
    for path in sorted(ROOT.rglob("*.py")):
        assert not {"pickle", "cloudpickle", "marshal", "shelve"} & {n.split(".")[0] for n in imports(path)}, path
