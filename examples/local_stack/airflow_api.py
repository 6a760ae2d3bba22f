"""A small client of Airflow's REST API, with the calls that the demonstration and the end-to-end tests need.

Tokens are fetched when needed and never stored. Waiting is bounded, and a timeout reports the last state.
"""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx

from tidegate.protocol.facts.errors import CheckpointError

#: Seconds between two polls.
INTERVAL = 0.3
#: The attempts of a request that gets no answer. On a busy machine an answer can take half a minute.
ATTEMPTS = 4
FINISHED = frozenset({"success", "failed"})


class AirflowApiError(CheckpointError):
    """Airflow refused a request, gave no answer, or did not reach the expected state."""


class AirflowApi:
    """Airflow's API at `url` (such as `http://127.0.0.1:8080`), with one user's rights and a time limit for each
    answer.
    """

    def __init__(self, url: str, user: str, password: str, timeout: float = 30.0) -> None:
        self.url = url
        self._credentials = {"username": user, "password": password}
        self._timeout = timeout
        self._client = httpx.Client(base_url=url, timeout=timeout)

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """Send one request below `/api/v2`, and return its answer as JSON. A `GET` without an answer is repeated.

        Raises:
            AirflowApiError: Unless it succeeds.
        """
        if "authorization" not in self._client.headers:
            self._login()
        attempts = ATTEMPTS if method == "GET" else 1
        answer = self._answer(method, f"/api/v2{path}", attempts, **arguments)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._login()
            answer = self._answer(method, f"/api/v2{path}", attempts, **arguments)
        if answer.is_error:
            raise AirflowApiError(f"Airflow answered {answer.status_code} to {method} {path}: {answer.text[:500]}")
        return answer.json() if answer.content else None

    def _answer(self, method: str, path: str, attempts: int, **arguments: Any) -> httpx.Response:
        attempt = 1
        while True:
            try:
                return self._client.request(method, path, **arguments)
            except httpx.TimeoutException as error:
                if attempt == attempts:
                    safe = "Nothing was changed" if method == "GET" else "The request may have been carried out"
                    raise AirflowApiError(
                        f"Airflow at {self.url} gave no answer to {method} {path} in {self._timeout:g} s, in attempt "
                        f"{attempt} of {attempts}. {safe}. Check its pages, and the log of its API server."
                    ) from error
                attempt += 1

    def _login(self) -> None:
        answer = self._answer("POST", "/auth/token", ATTEMPTS, json=self._credentials)
        if answer.is_error:
            raise AirflowApiError(f"Airflow at {self.url} refused to log in: {answer.status_code} {answer.text[:200]}")
        self._client.headers["authorization"] = f"Bearer {answer.json()['access_token']}"

    def health(self) -> dict[str, str]:
        """Return the status of each component, such as `{"scheduler": "healthy"}`; empty while the server does not
        answer.
        """
        try:
            answer = self._client.get("/api/v2/monitor/health")
            return {name: part["status"] for name, part in answer.json().items()} if answer.is_success else {}
        except (httpx.TransportError, ValueError):
            return {}

    def wait_for_dag(self, dag_id: str, timeout: float = 90.0) -> None:
        """Wait until the DAG is parsed, and unpause it.

        Raises:
            AirflowApiError: If that takes too long, with Airflow's import errors.
        """
        deadline = time.monotonic() + timeout
        while dag_id not in {dag["dag_id"] for dag in self.call("GET", "/dags")["dags"]}:
            if time.monotonic() > deadline:
                errors = [error["stack_trace"] for error in self.call("GET", "/importErrors")["import_errors"]]
                raise AirflowApiError(
                    "\n".join([f"Airflow did not find the DAG {dag_id!r} in {timeout:.0f} s.", *errors])
                )
            time.sleep(INTERVAL)
        self.call("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str, run_id: str | None = None, conf: dict[str, Any] | None = None) -> str:
        """Start a DAG run and return its run id."""
        body: dict[str, Any] = {"logical_date": None, "conf": conf or {}}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def restore(self, pipeline: str, checkpoint_id: int, dag_id: str) -> str:
        """Restore a pipeline as the Checkpoints page does: request a plan, then confirm it. Return the id of the DAG
        run that carries it out.
        """
        plan = self._asked_on_page(pipeline, "plan-restore", to=str(checkpoint_id))
        self.wait(dag_id, f"tidegate__{plan}")
        return f"tidegate__{self._asked_on_page(pipeline, f'restore-plans/{plan}/restore')}"

    def drain(self, pipeline: str) -> str:
        """Drain a pipeline as the Checkpoints page does. Return the id of the DAG run that does it."""
        return f"tidegate__{self._asked_on_page(pipeline, 'drain')}"

    def _asked_on_page(self, pipeline: str, what: str, **given: Any) -> str:
        """Send a request as a page does, and return its id."""
        self.call("GET", "/version")  # logs in
        pages, request_id = "/tidegate/api/v1", str(uuid4())
        token = self._answer("GET", f"{pages}/token", ATTEMPTS).json()["token"]
        path, body = f"{pages}/pipelines/{pipeline}/{what}", {"request_id": request_id, **given}
        answer = self._answer("POST", path, 1, json=body, headers={"Tidegate-Token": token})
        if answer.is_error:
            raise AirflowApiError(f"The pages answered {answer.status_code} to POST {path}: {answer.text[:500]}")
        return request_id

    def state(self, dag_id: str, run_id: str) -> str:
        return str(self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait(
        self, dag_id: str, run_id: str, timeout: float = 300.0, watch: Callable[[dict[str, Any]], None] | None = None
    ) -> str:
        """Wait until the DAG run ends, and return `success` or `failed`. `watch` is given the task instances at every
        poll.
        """
        deadline = time.monotonic() + timeout
        while True:
            state = self.state(dag_id, run_id)
            if watch is not None:
                watch(self.tasks(dag_id, run_id))
            if state in FINISHED:
                return state
            if time.monotonic() > deadline:
                tasks = {name: task["state"] for name, task in self.tasks(dag_id, run_id).items()}
                raise AirflowApiError(
                    f"DAG run {run_id} of {dag_id} is {state} after {timeout:.0f} s; its tasks: {tasks}"
                )
            time.sleep(INTERVAL)

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return the DAG run's task instances by task id, as Airflow describes them (`state`, `try_number`, `duration`,
        …).
        """
        instances = self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {instance["task_id"]: instance for instance in instances}

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """Return the log of one try as text."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self.call("GET", path, params={"full_content": "true"}, headers={"accept": "application/json"})[
            "content"
        ]
        return "\n".join(line if isinstance(line, str) else str(line.get("event", line)) for line in content)

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Return the task's extra links by name."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
        return dict(self.call("GET", path)["extra_links"])

    def clear(self, dag_id: str, run_id: str, only_failed: bool = False) -> None:
        """Run the tasks of a finished DAG run again."""
        body = {"dry_run": False, "only_failed": only_failed}
        self.call("POST", f"/dags/{dag_id}/dagRuns/{run_id}/clear", json=body)
