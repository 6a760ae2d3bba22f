"""Two pipelines in a chain under a real Airflow: the asset of one pipeline's table starts the one that reads it."""

import json

import pytest
from iceberg_tables import Lake
from live_airflow import PATIENCE, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def deliver(world, name, *orders):
    landing = world.home / "landing/orders"
    landing.mkdir(parents=True, exist_ok=True)
    unfinished = landing / f".{name}"
    unfinished.write_text("\n".join(json.dumps({"customer": customer, "cents": cents}) for customer, cents in orders))
    unfinished.rename(landing / f"{name}.json")


def silver_runs(world):
    return sorted(world.api.call("GET", "/dags/silver/dagRuns")["dag_runs"], key=lambda run: run["queued_at"])


def test_each_checkpoint_of_bronze_becomes_one_of_silver(world):
    lake = Lake(world.stack.database_url)
    for dag_id in ("bronze", "silver"):
        world.api.wait_for_dag(dag_id)
    deliveries = {"first": [("ann", 5), ("bob", 7)], "second": [("ann", 1), ("cyd", 2)]}
    expected = [{"ann": (1, 5), "bob": (1, 7)}, {"ann": (2, 6), "bob": (1, 7), "cyd": (1, 2)}]
    for number, (name, orders) in enumerate(deliveries.items(), start=1):
        deliver(world, name, *orders)
        assert world.run("bronze")[1] == "success"
        wait_for(lambda n=number: len(silver_runs(world)) >= n, lambda: silver_runs(world))
        run = silver_runs(world)[number - 1]
        assert run["run_type"] == "asset_triggered"
        assert world.api.wait("silver", run["dag_run_id"], PATIENCE) == "success"
        totals = {row["customer"]: (row["orders"], row["cents"]) for row in lake.rows("silver.totals")}
        assert totals == expected[number - 1]
    assert sorted((row["customer"], row["cents"]) for row in lake.rows("bronze.orders")) == [
        ("ann", 1), ("ann", 5), ("bob", 7), ("cyd", 2),
    ]  # fmt: skip
    assert len(silver_runs(world)) == len(world.checkpoints("silver")) == 2
