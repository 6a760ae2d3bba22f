"""The button "Test" of Airflow's form for a connection of type `tidegate`."""

import json

import pytest
from sqlalchemy.engine import make_url

from tidegate.airflow.database_connection import DatabaseHook


@pytest.fixture
def answer_of(monkeypatch):
    def of(url, **changes):
        parts = make_url(url)
        given = {
            "conn_type": "tidegate",
            "host": parts.host,
            "port": parts.port,
            "login": parts.username,
            "password": parts.password,
            "schema": parts.database,
        }
        monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_TEST", json.dumps(given | changes))
        return DatabaseHook("tidegate_test").test_connection()

    return of


def test_a_database_that_fits_is_said_to(answer_of, postgres_url):
    assert answer_of(postgres_url) == (True, "The database answers, and its schema is up to date.")


def test_a_database_without_the_schema_and_one_that_is_away_say_what_to_do(answer_of, postgres_url):
    fits, said = answer_of(postgres_url, schema="postgres")
    assert (fits, "Run `tidegate db upgrade` first" in said) == (False, True)
    fits, said = answer_of(postgres_url, port=1)
    assert (fits, bool(said)) == (False, True)
