"""The clicks example beside a topic that is written to all the time, killed with SIGKILL again and again: its tables
and topics are what plain Python says of the clicks, and of the same checkpoint whenever somebody looks."""

from functools import partial
from pathlib import Path
from random import Random

import pytest
from clicks_site import Site, Watching
from kafka_brokers import Broker
from marts import Server
from repeating_driver import Lives, RepeatingDriver
from sizes import later, sizes

from tidegate import assembly

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


@sizes("kills", sample=2, whole=20)
@pytest.mark.parametrize("mode", ["scheduled", "continuous", later("unaligned")])
def test_tables_and_topics_agree_after_each_checkpoint_however_often_it_is_killed(
    mode: str,
    kills: int,
    broker: Broker,
    tmp_path: Path,
    postgres_url: str,
    connect_server: str,
) -> None:
    site = Site(broker, Server(postgres_url), tmp_path)
    make = partial(RepeatingDriver, tmp_path, postgres_url, mode, connect_server, "clicks.web:clicks_pipeline")
    lives = Lives(assembly.open_store(postgres_url), "web", partial(make, **site.given), Random(f"{mode} {kills}"))
    watching = Watching(site)
    watching.start()
    with site.rush(kills):
        for number in range(kills):
            lives.live(number)
    site.end()
    lives.finish(site.has_all)
    watching.finish()
    site.check_end()
