"""Deploys a wrong version of the pipeline as its DAG file, and the right version again."""

import shutil
from pathlib import Path

RIGHT, WRONG = 'where("dep_delay IS NOT NULL")', 'where("dep_delay > 0")'
_DAG = """

from tidegate.airflow import checkpoint_dag

dag = checkpoint_dag(pipeline, schedule="*/10 * * * *")
"""


def deploy(project: Path, dags: Path) -> None:
    """Copy the project's DAG files."""
    shutil.copytree(project / "dags", dags, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def deploy_mistake(dags: Path) -> str:
    """Replace the DAG file by a copy of the pipeline with one changed line, which loses every flight that left early or
    on time. Return a description of the change.
    """
    source = Path(__file__).with_name("pipeline.py").read_text()
    assert source.count(RIGHT) == 1, f"{RIGHT} is to be replaced in pipeline.py, but is not there once"
    (dags / "flight_delays.py").write_text(source.replace(RIGHT, WRONG) + _DAG)
    return f"{RIGHT} has become {WRONG}"
