"""The DAG files of the project, as Airflow's DAG processor reads them."""

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dag_bag():
    return DagBag(dag_folder=PROJECT / "dags", safe_mode=True)


def test_every_dag_file_is_found_and_imports(dag_bag):
    assert dag_bag.import_errors == {}
    assert {Path(dag.fileloc).name for dag in dag_bag.dags.values()} == {
        p.name for p in (PROJECT / "dags").glob("*.py")
    }


def test_flight_delays_takes_a_checkpoint_every_ten_minutes(dag_bag):
    dag = dag_bag.dags["flight_delays"]
    assert dag.schedule == "*/10 * * * *"
    assert {asset.uri for asset in dag.get_task("notify").outlets} == {
        "tidegate://flight_delays/departures",
        "tidegate://flight_delays/carrier_delays",
        "tidegate://flight_delays/carrier_mart",
        "tidegate://flight_delays/delay_by_weather",
        "tidegate://flight_delays/departures_iceberg",
        "tidegate://flight_delays/carrier_delays_iceberg",
        "tidegate://flight_delays/delay_by_weather_iceberg",
    }
