"""What an Airflow connection says about where Spark runs."""

import json

import pytest

from tidegate.airflow.spark_connection import spark_settings
from tidegate.protocol.facts.errors import ConfigurationError


@pytest.fixture
def settings_of(monkeypatch):
    def of(**connection):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(connection))
        return spark_settings("spark_test")

    return of


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ({"host": "local[2]"}, "local[2]"),
        ({"host": "yarn"}, "yarn"),
        ({"host": "spark://master", "port": 7077}, "spark://master:7077"),
        ({"host": "master", "port": 7077}, "spark://master:7077"),
        ({"host": "k8s://https://cluster", "port": 6443}, "k8s://https://cluster:6443"),
    ],
)
def test_a_spark_connection_names_a_master(settings_of, connection, master):
    settings = settings_of(conn_type="spark", **connection)
    assert (settings.master, settings.remote) == (master, None)


def test_a_spark_connection_may_be_written_as_a_url(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://master:7077")
    assert spark_settings("spark_test").master == "spark://master:7077"


def test_a_spark_connect_connection_names_a_server_and_its_token(settings_of):
    settings = settings_of(conn_type="spark_connect", host="server", port=15002, password="secret")
    assert (settings.master, settings.remote) == (None, "sc://server:15002/;token=secret")


def test_extras_of_the_connection_configure_spark(settings_of):
    settings = settings_of(
        conn_type="spark",
        host="yarn",
        extra={"spark.executor.memory": "4g", "queue": "night", "spark-binary": "spark-submit"},
    )
    assert settings.conf == {"spark.executor.memory": "4g", "spark.yarn.queue": "night"}


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        ({"conn_type": "spark"}, "has no host"),
        ({"conn_type": "postgres", "host": "db"}, "is of type 'postgres'"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}, "Set it to 'client'"),
    ],
)
def test_a_connection_that_cannot_be_used_says_why(settings_of, connection, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        settings_of(**connection)


def test_a_missing_connection_is_an_error_with_the_line_that_fixes_it():
    with pytest.raises(ConfigurationError, match=r"AIRFLOW_CONN_NO_SPARK='\{\"conn_type\": \"spark\""):
        spark_settings("no_spark")
