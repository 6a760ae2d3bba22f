"""Versions of a file in a continuous run: killed, with some of them in flight, and old copies deleted meanwhile."""

from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from dimension_deliveries import Shop
from orders import rows_of

from tidegate.protocol.facts.records import HandleKind

pytestmark = pytest.mark.spark


def delete_what_nothing_refers_to(running: Running) -> None:
    kept = {handle.path for snapshot in running.completed.values() for handle in snapshot.handles}
    running.storage.delete([path for path in running.storage.list("") if path not in kept])


def test_tables_follow_versions_that_were_in_flight_when_the_run_was_killed(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, seed=4)
    customers = shop.customers
    running = Running(shop.pipeline(unaligned=True), spark, tmp_path, max_batch_bytes=10_000)
    for number in range(3):
        polled = []
        for _ in range(2 if number else 1):  # each of them is compared with the one before, which is in flight, too
            polled.append(customers.deliver())
            shop.buy(2)
            running.poll()
        running.begin()
        running.until_acknowledged()
        if number == 1:  # lost: none of it was on record
            running.restart()
            continue
        in_flight = [
            handle.details["file"]
            for ack in running.acknowledged.values()
            for handle in ack.snapshot.handles
            if handle.kind is HandleKind.CHANNEL and "file" in handle.details
        ]
        assert in_flight
        running.complete()
        customers.read += polled
        customers.deliver()
        delete_what_nothing_refers_to(running)
        running.restart()
    customers.read.append((customers.now, customers.rows))
    running.until_idle()
    running.take()
    customers.check(shop.tables)
    shop.check_updated()
    numbers = [row["order_id"] for row in rows_of(shop.tables / "read")]
    assert sorted(numbers) == list(range(len(shop.put)))
    then = [row["order_id"] for row in rows_of(shop.tables / "then")]
    assert len(set(then)) == len(then)
