"""A standalone cluster whose executors are processes of their own, with checkpoints on S3: exact,
also when one is killed."""

import contextlib
import os
import signal
import stat

import pytest
from driver import Driver
from object_stores import Bucket
from orders import Shop, check_storage, check_tables
from spark_clusters import Cluster

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.steps.finalize import referred_files

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

LONGEST = 400  # seconds for a driver; its executors are started anew


def test_a_cluster_is_exact_although_an_executor_is_killed(cluster: Cluster, tmp_path, postgres_url, store) -> None:
    environment = cluster.driver({})
    shop = Shop(tmp_path)
    shop.deliver(files=4, rows=50)
    with contextlib.closing(Driver(tmp_path, postgres_url, "r1", environment, slow=True)) as driver:
        kill_an_executor(cluster, store, driver)
        driver.finish(LONGEST)
    check_tables(shop)
    check_storage(store, "orders", tmp_path / "checkpoints", tmp_path)


def test_so_is_one_with_checkpoints_on_s3_and_nothing_of_old_ones_stays_there(
    cluster: Cluster, bucket: Bucket, tmp_path, postgres_url, store
) -> None:
    environment = {**cluster.driver(bucket.environment), **bucket.environment, "TIDEGATE_STORAGE": bucket.url}
    environment["TIDEGATE_CACHE"] = ""  # on each machine the user's own
    shop = Shop(tmp_path)
    shop.deliver(files=4, rows=50)
    with contextlib.closing(Driver(tmp_path, postgres_url, "r1", environment, slow=True)) as driver:
        kill_an_executor(cluster, store, driver)
        driver.finish(LONGEST)
    check_tables(shop)
    shop.deliver(files=1, rows=30)
    with contextlib.closing(Driver(tmp_path, postgres_url, "r2 r3", environment)) as driver:  # two are retained
        driver.finish(LONGEST)
    check_tables(shop)
    check_bucket(bucket, store)
    copies = cluster.cache_home / "tidegate" / "runs"
    assert stat.S_IMODE(copies.stat().st_mode) == 0o700
    assert list(copies.glob("*.copy"))
    assert not list(tmp_path.glob("checkpoints"))


def kill_an_executor(cluster: Cluster, store, driver: Driver) -> None:
    """In the middle of the snapshot: what is to be processed is fixed, and on its way."""
    driver.wait_ready()
    while driver.is_running() and not any(record.num_acknowledged for record in store.history("orders", 1)):
        store.wait_for_change("orders", 1)
    while driver.is_running() and not cluster.executors():
        store.wait_for_change("orders", 0.1)
    assert store.history("orders", 1)[0].status is Status.IN_PROGRESS, driver.log()
    os.kill(cluster.executors()[0], signal.SIGKILL)


def check_bucket(bucket: Bucket, store) -> None:
    """Every object is one that a retained checkpoint refers to, in its length, or marks a directory with such in it."""
    retained = [record for record in store.history("orders", 10) if record.status is Status.COMPLETED]
    expected = {}
    for record in retained:
        subtasks = store.subtasks("orders", record.checkpoint_id).values()
        expected |= {handle.path: handle.bytes for handle in referred_files(known.snapshot for known in subtasks)}
    found = bucket.objects()
    documents = set(with_markers(str(record.metadata_path) for record in retained))
    assert documents <= found.keys()
    marks = {key for key, size in found.items() if key.endswith("/") and not size}
    assert not [mark for mark in marks if not any(path.startswith(mark) for path in documents | expected.keys())]
    assert {key: size for key, size in found.items() if key not in documents | marks} == expected
