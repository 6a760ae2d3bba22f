"""A whole Airflow that runs, with Postgres and Spark, and what a test asks of it."""

import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pyarrow.dataset

from tidegate.protocol.facts.records import HandleKind

PROJECT = Path(__file__).parents[2]
PIPELINE = "small"
STEPS = ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify", "abort")
#: Seconds for a DAG run. One takes about twenty where nothing else runs; a machine that is busy may need minutes.
PATIENCE = 400.0


class World:
    """The running stack and what a test wants to know of it."""

    def __init__(self, home, stack, api, store):
        self.home, self.stack, self.api, self.store = home, stack, api, store

    def token(self, user="admin"):
        """Of a login as one of the users of this Airflow."""
        login = {"username": user, "password": json.loads(self.stack.password_file.read_text())[user]}
        answer = httpx.post(f"{self.stack.url}/auth/token", json=login, timeout=60)
        return answer.raise_for_status().json()["access_token"]

    def page(self, path, user="admin", method="GET", **how):
        """What the pages and their API answer to somebody."""
        headers = {"Authorization": f"Bearer {self.token(user)}"} | how.pop("headers", {})
        return httpx.request(method, f"{self.stack.url}/tidegate/{path}", headers=headers, timeout=60, **how)

    def lay(self, name, *rows, pipeline=PIPELINE):
        landing = self.home / "landing" / pipeline
        landing.mkdir(parents=True, exist_ok=True)
        unfinished = landing / f".{name}"
        unfinished.write_text("\n".join(json.dumps({"k": k, "n": n}) for k, n in rows))
        unfinished.rename(landing / f"{name}.json")

    def hold(self, pipeline=PIPELINE):
        self.home.joinpath(f"{pipeline}.pid").unlink(missing_ok=True)
        self.home.joinpath(f"{pipeline}.hold").touch()

    def release(self, pipeline=PIPELINE):
        self.home.joinpath(f"{pipeline}.hold").unlink()

    def driver(self, pipeline=PIPELINE):
        """The process of the snapshot that is held."""
        path, deadline = self.home / f"{pipeline}.pid", time.monotonic() + PATIENCE
        while not path.exists() or not path.read_text():
            assert time.monotonic() < deadline, "no snapshot began"
            time.sleep(0.2)
        return int(path.read_text())

    def run(self, dag_id=PIPELINE):
        """A DAG run from its request to its end: its id and its state."""
        run_id = self.api.trigger(dag_id)
        return run_id, self.api.wait(dag_id, run_id, PATIENCE)

    def asking(self, dag_id, **conf):
        """A DAG run whose request waits its turn."""
        run_id, deadline = self.api.trigger(dag_id, conf=conf), time.monotonic() + PATIENCE
        while self.states(run_id, dag_id)["trigger"] != "deferred":
            assert time.monotonic() < deadline, self.states(run_id, dag_id)
            time.sleep(0.2)
        return run_id

    def states(self, run_id, dag_id=PIPELINE):
        return {name: task["state"] for name, task in self.api.tasks(dag_id, run_id).items()}

    def tries(self, run_id, dag_id=PIPELINE):
        return {name: task["try_number"] for name, task in self.api.tasks(dag_id, run_id).items()}

    def checkpoints(self, pipeline=PIPELINE):
        """Newest first."""
        return self.store.history(pipeline, 100)

    def staged(self, checkpoint_id):
        """Rows that a checkpoint delivered, by the operator id of their sink."""
        rows = Counter()
        for subtask, known in self.store.subtasks(PIPELINE, checkpoint_id).items():
            rows[subtask.operator_id] += sum(h.rows for h in known.snapshot.handles if h.kind is HandleKind.STAGED)
        return rows

    def rows(self, pipeline=PIPELINE):
        table = pyarrow.dataset.dataset(self.home / f"tables/{pipeline}/rows", partitioning="hive").to_table()
        if not table.num_columns:  # no checkpoint has completed yet
            return []
        return sorted(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))

    def totals(self, pipeline=PIPELINE):
        table = pyarrow.dataset.dataset(self.home / f"tables/{pipeline}/totals/current").to_table()
        return {row["k"]: (row["lines"], row["total"]) for row in table.to_pylist()}

    def events(self, run_id):
        """What a DAG run announced, by asset."""
        answer = self.api.call("GET", "/assets/events", params={"source_run_id": run_id, "limit": 100})
        return sorted((event["uri"], event["extra"]) for event in answer["asset_events"])

    def xcoms(self, run_id, dag_id=PIPELINE):
        """What the steps handed on, by step, without the buttons that Airflow keeps there."""
        found = {}
        for step in STEPS:
            path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{step}/xcomEntries"
            for entry in self.api.call("GET", path)["xcom_entries"]:
                if not entry["key"].startswith("_link_"):
                    found[step, entry["key"]] = self.api.call("GET", f"{path}/{entry['key']}")["value"]
        return found


def restored(page, confirm):
    """The plan that is shown there is confirmed, and carried out; what the page says then."""
    page.get_by_role("button", name="Show the plan").click()
    page.wait_for_url("**/restore-plans/*")
    page.get_by_role("button", name=confirm).click()
    page.locator("#result", has_text="was restored to checkpoint").wait_for()
    return page.locator("#page").inner_text()


def wait_for(look, what):
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, what()
        time.sleep(0.4)


def alive_after(processes, seconds=60.0):
    """Those that have not ended by then; a zombie has, nobody has asked for its exit code yet."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if _is_alive(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return alive


def _is_alive(process):
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
