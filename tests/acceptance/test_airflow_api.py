"""What the client of Airflow's API does when no answer comes: no Airflow runs here, but a server that is slow does."""

import threading
from contextlib import closing

import pytest
from receivers import receiving

from local_stack import airflow_api
from local_stack.airflow_api import AirflowApi, AirflowApiError

TIMEOUT = 1.5  # seconds: a busy machine answers within that
ATTEMPTS = 2


class Silent:
    """Answers to all but the first requests of a method; those wait until the test is over."""

    def __init__(self, method, requests):
        self.method, self.left, self.over = method, requests, threading.Event()

    def __call__(self, request):
        if request.method == self.method and request.path.startswith("/api/v2") and self.left:
            self.left -= 1
            self.over.wait()
        return 200


@pytest.fixture
def airflow(monkeypatch):
    monkeypatch.setattr(airflow_api, "ATTEMPTS", ATTEMPTS)
    with receiving() as receiver, closing(AirflowApi(receiver.url, "admin", "secret", TIMEOUT)) as api:
        receiver.body = b'{"access_token": "t", "state": "success", "dag_run_id": "r"}'
        yield receiver, api
        receiver.answer.over.set()


def asked(receiver):
    return [request.method for request in receiver.requests if request.path.startswith("/api/v2")]


def test_a_wait_goes_on_when_an_answer_does_not_come(airflow):
    receiver, api = airflow
    receiver.answer = Silent("GET", ATTEMPTS - 1)
    assert api.wait("small", "r") == "success"
    assert asked(receiver) == ["GET"] * ATTEMPTS


def test_without_any_answer_it_says_who_was_asked_for_what(airflow):
    receiver, api = airflow
    receiver.answer = Silent("GET", ATTEMPTS)
    silence = f"{receiver.url} gave no answer to GET /api/v2/dags/small/dagRuns/r in 1.5 s"
    with pytest.raises(AirflowApiError, match=f"{silence}.* Nothing was changed"):
        api.wait("small", "r")
    assert asked(receiver) == ["GET"] * ATTEMPTS


def test_what_changes_something_is_asked_once(airflow):
    """A DAG run that is asked for twice would run twice."""
    receiver, api = airflow
    receiver.answer = Silent("POST", 1)
    with pytest.raises(AirflowApiError, match="The request may have been carried out"):
        api.trigger("small")
    assert asked(receiver) == ["POST"]
