"""Real SIGKILLs of a continuous region at random moments, in the middle of micro-batches and checkpoints alike."""

import contextlib
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from orders import Shop, check_storage, check_tables, orders_pipeline
from region_driver import RegionDriver
from sizes import later, sizes
from user_actions import resume, suspend

from tidegate import assembly
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]  # what is killed has a JVM of its own


class LaterClock:
    """Late enough for everything that has ended to be settled."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(hours=2)


def coordinator_of(home: Path, store: PostgresCheckpointStore) -> CheckpointCoordinator:
    return CheckpointCoordinator(
        orders_pipeline(home), store, ArrowCheckpointStorage(str(home / "checkpoints")), LaterClock()
    )


def completed(store: PostgresCheckpointStore) -> int:
    found = store.history("orders", 1000)
    return sum(record.status in {Status.COMPLETED, Status.SUBSUMED, Status.DISCARDED} for record in found)


def wait_until(driver: RegionDriver, store: PostgresCheckpointStore, number: int) -> None:
    """As many checkpoints have completed."""
    deadline = time.monotonic() + 120
    while completed(store) < number:
        assert driver.is_running(), driver.log()
        assert time.monotonic() < deadline, driver.log()
        store.wait_for_change("orders", 1)


@sizes("kills", sample=1, whole=8)
@pytest.mark.parametrize("unaligned", [later(False), True])
def test_sigkill_of_a_region_at_random_moments_costs_nothing(
    unaligned: bool, kills: int, tmp_path: Path, postgres_url: str, connect_server: str
) -> None:
    random, shop, store = Random(20261121), Shop(tmp_path), assembly.open_store(postgres_url)
    left: Counter[str] = Counter()
    for _ in range(kills):
        driver = RegionDriver(tmp_path, postgres_url, interval="500 ms", unaligned=unaligned)
        with contextlib.closing(driver):
            driver.wait_ready()
            wait_until(driver, store, completed(store) + 1)
            until = time.monotonic() + random.uniform(0.5, 4)
            while time.monotonic() < until:
                shop.deliver(files=random.randint(1, 2))
                time.sleep(random.uniform(0, 0.5))
            assert driver.is_running(), driver.log()
            driver.send(signal.SIGKILL)
        newest = store.history("orders", 1)[0]
        left[f"{newest.status}/{newest.phase} {newest.num_acknowledged} of {newest.num_subtasks}"] += 1
    last = RegionDriver(tmp_path, postgres_url, connect_server, interval="500 ms", unaligned=unaligned)
    with contextlib.closing(last):
        last.wait_ready()
        wait_until(last, store, completed(store) + 3)
        suspend(coordinator_of(tmp_path, store))
        assert last.wait() == 0, last.log()
    print(f"killed regions left: {dict(left)}")
    resume(coordinator_of(tmp_path, store))
    check_tables(shop)
    coordinator_of(tmp_path, store).clean()
    check_storage(store, "orders", tmp_path / "checkpoints", tmp_path)
