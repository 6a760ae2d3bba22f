"""Backfills of a pipeline's DAG on a real Airflow: DAG runs that all ask at once, and wait in line for each other."""

import time
from contextlib import suppress
from itertools import pairwise

import pytest
from live_airflow import PATIENCE

from local_stack.airflow_api import AirflowApiError
from tidegate.airflow.triggers import RENEWAL
from tidegate.protocol.facts.lifecycle import COMMITTED

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]

YEARS = (2020, 2021, 2022)


class Backfills:
    """What is asked of Airflow about them."""

    def __init__(self, world):
        self.world, self.api = world, world.api

    def create(self):
        """As `airflow backfill create` does, for the DAG runs of the years."""
        body = {"dag_id": "yearly", "from_date": f"{YEARS[0]}-01-01", "to_date": f"{YEARS[-1]}-01-01"}
        return self.api.call("POST", "/backfills", json=body | {"max_active_runs": 10})["id"]

    def close(self, backfill_id):
        """At once: by itself Airflow looks every half minute whether a backfill has ended, and allows one at a time."""
        with suppress(AirflowApiError):  # it has just looked
            self.api.call("PUT", f"/backfills/{backfill_id}/cancel")

    def run_ids(self):
        return sorted(run["dag_run_id"] for run in self.api.call("GET", "/dags/yearly/dagRuns")["dag_runs"])

    def ended(self):
        """How each of them ended, in the order of their years."""
        return [self.api.wait("yearly", run_id, PATIENCE) for run_id in self.run_ids()]

    def wait_for_checkpoint(self, number):
        deadline = time.monotonic() + PATIENCE
        while len(self.world.checkpoints("yearly")) < number:
            assert time.monotonic() < deadline, self.world.checkpoints("yearly")
            time.sleep(0.2)

    def looks(self, run_id):
        """How often a task was started for the DAG run only to find that its turn had not come."""
        return self.log(run_id).count("Waiting: ")

    def log(self, run_id):
        """All that `trigger` logged in all its tries, with the details of its errors."""
        path = f"/dags/yearly/dagRuns/{run_id}/taskInstances/trigger/logs"
        how = {"params": {"full_content": "true"}, "headers": {"accept": "application/json"}}
        tries = range(1, self.world.tries(run_id, "yearly")["trigger"] + 1)
        return "\n".join(str(self.api.call("GET", f"{path}/{number}", **how)) for number in tries)


def test_the_runs_of_a_backfill_wait_in_line_and_repeating_them_after_they_were_deleted_changes_nothing(world):
    backfills, began = Backfills(world), time.monotonic()
    world.lay("first", ("a", 1), ("b", 2), pipeline="yearly")
    backfill_id = backfills.create()
    backfills.wait_for_checkpoint(2)
    world.lay("second", ("a", 3), pipeline="yearly")
    assert backfills.ended() == ["success"] * 3
    took = time.monotonic() - began

    taken = world.checkpoints("yearly")[::-1]
    assert [checkpoint.status in COMMITTED for checkpoint in taken] == [True] * 3
    run_ids = backfills.run_ids()
    assert sorted(checkpoint.request_id.split("/")[1] for checkpoint in taken) == run_ids, "one checkpoint a run"
    for before, after in pairwise(taken):
        assert before.completed_at <= after.triggered_at, "one after the other"
    assert not any(checkpoint.periodic for checkpoint in taken)
    rows, totals = world.rows("yearly"), world.totals("yearly")
    assert (rows, totals) == ([("a", 1), ("a", 3), ("b", 2)], {"a": (2, 4), "b": (1, 2)})
    in_line = len(YEARS) - 1
    assert sum(map(backfills.looks, run_ids)) <= in_line * (1 + took / RENEWAL.total_seconds()), "who waits, rests"

    for run_id in run_ids:
        world.api.call("DELETE", f"/dags/yearly/dagRuns/{run_id}")
    backfills.close(backfill_id)
    backfills.create()
    assert backfills.run_ids() == run_ids
    assert backfills.ended() == ["failed"] * 3, list(map(backfills.log, run_ids))
    for run_id in run_ids:
        assert "was already taken for a deleted DAG run with the same id and date" in backfills.log(run_id)
    assert [checkpoint.checkpoint_id for checkpoint in world.checkpoints("yearly")] == [3, 2, 1]
    assert (world.rows("yearly"), world.totals("yearly")) == (rows, totals)
