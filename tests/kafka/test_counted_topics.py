"""From a topic through state to topics, killed with SIGKILL at any moment and in each step of a transaction: an
independent consumer of what is committed counts each record once."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from counted_topics import check, place_to_die
from kafka_brokers import Broker
from repeating_driver import Lives, RepeatingDriver
from sizes import sizes

from tidegate import assembly

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]
MAKER = "counted_topics:counting_pipeline"


@sizes("kills", sample=5, whole=65)
def test_an_independent_consumer_counts_each_record_once(
    kills: int, broker: Broker, tmp_path: Path, postgres_url: str, connect_server: str
) -> None:
    random, records, made = Random(kills), broker.topic(3), made_records(Random(kills))
    given = {"records": records, "copies": broker.topic(2), "counts": broker.topic(2)}
    make = partial(RepeatingDriver, tmp_path, postgres_url, "scheduled", connect_server, MAKER, **given)
    lives, written = Lives(assembly.open_store(postgres_url), "counting", make, random), []

    def write() -> None:
        """Some are rolled back, and are never there."""
        other = broker.open_transaction(uuid4().hex)
        new = [next(made) for _ in range(random.choice([1, 5, 40, 300]))]
        for row in new:
            other.produce(records, json.dumps(row), row["page"])
        if random.random() < 0.2:
            other.abort_transaction(30)
        else:
            other.commit_transaction(30)
            written.extend(new)

    for number in range(kills):
        write()
        if number % 2:
            lives.live(number)
            continue
        with contextlib.closing(make(dies=place_to_die(random))) as driver:
            driver.wait_ready()
            write()
            lives.wait_for_end(driver)
    write()
    lives.finish(lambda: len(broker.messages(given["copies"])) == len(written))
    check(written, broker.messages(given["copies"]), broker.messages(given["counts"]))


def made_records(random: Random) -> Iterator[dict[str, Any]]:
    return ({"id": number, "page": random.choice("abcdefgh")} for number in count())
