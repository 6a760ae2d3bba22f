"""The clicks example runs on and on, and others do to its topic and its broker whatever they may."""

import contextlib
import time
from functools import partial
from pathlib import Path
from random import Random

import pytest
from clicks_site import Site
from kafka_brokers import OwnBroker
from marts import Server
from repeating_driver import Lives, RepeatingDriver
from sizes import sizes

from tidegate import assembly
from tidegate.kafka.markers import TOPIC

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


@sizes("seconds", sample=5, whole=120)
def test_all_clicks_arrive_once_after_open_transactions_new_partitions_and_a_broker_that_was_away(
    seconds: int, own_broker: OwnBroker, tmp_path: Path, postgres_url: str, connect_server: str
) -> None:
    site = Site(own_broker, Server(postgres_url), tmp_path)
    make = partial(RepeatingDriver, tmp_path, postgres_url, "continuous", connect_server, "clicks.web:clicks_pipeline")
    lives = Lives(assembly.open_store(postgres_url), "web", partial(make, **site.given), Random(seconds))
    with contextlib.closing(lives.make()) as driver:
        driver.wait_ready()
        site.click(300)
        lives.wait_until(driver, site.has_all)

        aborted, _ = site.transaction(50)
        aborted.abort_transaction(30)
        other, held = site.transaction(50)
        before = len(site.made)
        site.click(300)
        site.grow(5)
        site.click(300)
        lives.wait_until(driver, lambda: before + 300 < site.read())
        time.sleep(seconds)
        assert site.read() < before + 600, "clicks behind an open transaction were read"
        other.commit_transaction(30)
        site.made += held
        lives.wait_until(driver, site.has_all)

        # After a restart the binary does not end a transaction that was open when it stopped.
        own_broker.wait_for_commit(TOPIC)
        own_broker.stop()
        time.sleep(seconds)
        own_broker.start()
        site.click(300)
        assert driver.is_running() or "its brokers do not answer" in driver.log(), driver.log()
    site.end()
    lives.finish(site.has_all)
    site.check_end()
