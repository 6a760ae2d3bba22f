"""DAG runs whose steps wait, and the actions of Airflow's users on them.

A DAG run waits either in line, behind a checkpoint of ours, or for the snapshots of a continuous region, which is us.
So the actions are made on runs that wait, and hardly any needs Spark.
"""

import time
from urllib.parse import quote

from live_airflow import PATIENCE
from markupsafe import escape

from tidegate.protocol.facts.names import requests_of_run
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.reading.standing import standing_of

ENDED_BY_HAND = FailureReason.COORDINATOR_SUSPEND


class Marked:
    """The pipeline `marked`, its region, and the actions."""

    def __init__(self, world, pipeline, coordinator):
        self.world, self.api, self.pipeline, self.coordinator = world, world.api, pipeline, coordinator
        self.attempt = coordinator.start_region().attempt

    def wait_until(self, look, what):
        deadline = time.monotonic() + PATIENCE
        while not look():
            assert time.monotonic() < deadline, what()
            self.coordinator.keep_region(self.attempt)
            time.sleep(0.4)

    def waiting(self, task="acknowledge", dag_id="marked", **arguments):
        """A new DAG run, as soon as that task of it waits."""
        run_id = self.api.trigger(dag_id, **arguments)
        self.wait_for(run_id, dag_id, **{task: "deferred"})
        return run_id

    def wait_for(self, run_id, dag_id="marked", **states):
        def look():
            now = self.states(run_id, dag_id)
            return all(now[task] == state for task, state in states.items())

        self.wait_until(look, lambda: self.states(run_id, dag_id))

    def end(self, run_id, dag_id="marked"):
        """The state of the DAG run when it has ended, and its page says what became of it."""
        self.wait_until(
            lambda: self.api.state(dag_id, run_id) in ("success", "failed"), lambda: self.states(run_id, dag_id)
        )
        self._check_page(run_id, dag_id)
        return self.api.state(dag_id, run_id)

    def _check_page(self, run_id, dag_id):
        shown = self.world.page(f"dags/{dag_id}/runs/{quote(run_id, safe='')}").text
        asked = requests_of_run(dag_id, run_id)
        for one in self.checkpoints():
            is_shown = f'/pipelines/marked/checkpoints/{one.checkpoint_id}"' in shown
            assert is_shown == one.request_id.startswith(asked), one
            if is_shown:
                assert standing_of(one).text in shown
                assert one.failure_reason is None or str(escape(one.failure_reason.sentence)) in shown

    def audited(self, run_id, dag_id="marked"):
        """What is on record of the DAG run, newest first: the action, and the checkpoint of the answer."""
        records = [one for one in self.world.store.audit("marked", 99) if one.action.actor.name == f"{dag_id}/{run_id}"]
        return [(one.action.kind.value, one.answer.checkpoint_id) for one in records]

    def mark(self, run_id, state):
        self.api.call("PATCH", f"/dags/marked/dagRuns/{run_id}", json={"state": state})

    def pause(self, is_paused):
        self.api.call("PATCH", "/dags/marked", json={"is_paused": is_paused})

    def mark_task(self, run_id, task, state):
        path = f"/dags/marked/dagRuns/{run_id}/taskInstances/{task}"
        self.api.call("PATCH", path, json={"new_state": state})

    def clear(self, run_id, *tasks, downstream=True):
        body = {
            "dry_run": False, "dag_run_id": run_id, "task_ids": list(tasks), "only_failed": False,
            "include_downstream": downstream,
        }  # fmt: skip
        self.api.call("POST", "/dags/marked/clearTaskInstances", json=body)

    def states(self, run_id, dag_id="marked"):
        return self.world.states(run_id, dag_id)

    def requests(self):
        with self.world.store.transaction("marked") as tx:
            return [request.request_id for request in tx.requests()]

    def checkpoints(self):
        return self.world.checkpoints("marked")

    def newest(self):
        return self.checkpoints()[0]

    def abort(self):
        """As `tidegate abort` does."""
        self.coordinator.abort(self.newest().checkpoint_id, ENDED_BY_HAND, "By hand.")

    def acknowledge(self):
        """The region's part of the checkpoint in progress."""
        task = self.coordinator.begin_snapshot(self.attempt, self.newest().checkpoint_id)
        reports = [Acknowledgement(subtask, attempt, Snapshot(())) for subtask, attempt in task.attempts.items()]
        self.coordinator.record_acknowledgements(task.checkpoint_id, reports)
