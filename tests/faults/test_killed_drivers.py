"""Real SIGKILLs of the Spark driver at random moments, and a stopped driver that comes back after it was replaced."""

import contextlib
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from driver import Driver
from orders import Shop, check_storage, check_tables, orders_pipeline

from tidegate import assembly
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]  # dozens of drivers, each with a session of its own

LOCAL = {"TIDEGATE_SPARK_MASTER": "local[2]"}


class LaterClock:
    """Late enough for the directories of every ended checkpoint to be settled."""

    def now(self):
        return datetime.now(UTC) + timedelta(hours=2)


def sweep(tmp_path, store):
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))
    CheckpointCoordinator(orders_pipeline(tmp_path), store, storage, LaterClock()).clean()
    check_storage(store, "orders", tmp_path / "checkpoints", tmp_path)


#: What a killer waits for before its random delay: nothing but the clock, or that the checkpoint has come so far.
CUES = (
    None,
    lambda record: record.num_acknowledged > 0,
    lambda record: record.status is Status.COMPLETED,
    None,
    lambda record: record.phase is not Phase.TRIGGERED,
    lambda record: record.phase is Phase.VALIDATED,
)


def seen(store, request, cue):
    latest = store.history("orders", 1)
    return bool(latest) and latest[0].request_id == request and cue(latest[0])


def wait_for(store, request, cue, driver):
    """Later phases pass in milliseconds: the store's own notifications tell of them soon enough to hit one."""
    while driver.is_running() and not seen(store, request, cue):
        store.wait_for_change("orders", 1)


def left(record):
    notified = "/notified" if record.notified_at else ""
    return f"{record.status}/{record.phase} {record.num_acknowledged} of {record.num_subtasks}{notified}"


def kill_repeatedly(tmp_path, postgres_url, spark, seed, kills, longest):
    """Each driver takes up where the one before died; returns in which phase each left the checkpoint."""
    random, shop, store = Random(seed), Shop(tmp_path, seed), assembly.open_store(postgres_url)
    shop.deliver()
    request, phases = 0, Counter()
    while phases.total() < kills:
        driver = Driver(tmp_path, postgres_url, f"r{request}", spark)
        with contextlib.closing(driver):
            driver.wait_ready()
            if cue := CUES[phases.total() % len(CUES)]:
                wait_for(store, f"r{request}", cue, driver)
            time.sleep(random.uniform(0, 0.02 if cue else longest))
            driver.send(signal.SIGKILL)
            if driver.wait() == -signal.SIGKILL:
                latest = store.history("orders", 1)
                phases[left(latest[0]) if latest else "before the trigger"] += 1
        latest = store.history("orders", 1)
        if latest and latest[0].request_id == f"r{request}" and latest[0].status is Status.COMPLETED:
            request += 1
            shop.deliver(files=1)
    for last in (request, request + 1):
        driver = Driver(tmp_path, postgres_url, f"r{last}", spark)
        with contextlib.closing(driver):
            driver.finish()
    check_tables(shop)
    sweep(tmp_path, store)
    return phases


@pytest.mark.long
@pytest.mark.parametrize("kills", [12])
def test_sigkill_of_a_local_driver_at_random_moments_costs_nothing(kills, tmp_path, postgres_url):
    phases = kill_repeatedly(tmp_path, postgres_url, LOCAL, seed=20261120, kills=kills, longest=6.0)
    print(f"killed local drivers left: {dict(phases)}")


@pytest.mark.long
@pytest.mark.parametrize("kills", [18])
def test_sigkill_of_a_connect_client_at_random_moments_costs_nothing(kills, tmp_path, postgres_url, connect_server):
    """The server goes on with the job of a dead client for a while: its files must not count either."""
    spark = {"TIDEGATE_SPARK_REMOTE": connect_server}
    phases = kill_repeatedly(tmp_path, postgres_url, spark, seed=20261121, kills=kills, longest=3.5)
    print(f"killed Connect clients left: {dict(phases)}")


@pytest.mark.long
def test_a_stopped_driver_that_comes_back_changes_nothing(tmp_path, postgres_url):
    shop, store = Shop(tmp_path), assembly.open_store(postgres_url)
    shop.deliver()
    zombie = Driver(tmp_path, postgres_url, "r1", LOCAL, slow=True)
    with contextlib.closing(zombie):
        zombie.wait_ready()
        while not (found := store.history("orders", 1)) or found[0].num_acknowledged == 0:
            time.sleep(0.05)  # the sources have acknowledged, the operators are at work
        time.sleep(1)
        zombie.send(signal.SIGSTOP)
        assert found[0].num_acknowledged < found[0].num_subtasks
        successor = Driver(tmp_path, postgres_url, "r1", LOCAL)
        with contextlib.closing(successor):
            successor.wait_ready()
            successor.finish()
        completed = store.history("orders", 1)[0]
        assert completed.status is Status.COMPLETED
        before = store.subtasks("orders", completed.checkpoint_id)
        assert {known.attempt for key, known in before.items() if key.operator_id != "orders"} == {2}
        check_tables(shop)
        zombie.send(signal.SIGCONT)
        assert zombie.wait() != 0, "a superseded driver must not end well"
    assert store.history("orders", 10) == [completed]
    assert store.subtasks("orders", completed.checkpoint_id) == before
    check_tables(shop)
    sweep(tmp_path, store)
