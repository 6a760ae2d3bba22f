"""The clicks example goes back to each of its checkpoints and on from there: its tables are those of the straight run.
Topics cannot go back. What was written to them stays, and each record says of which checkpoint it is. Then the topic of
clicks is deleted and made anew."""

import json
from pathlib import Path

import pytest
from clicks_site import Site, checkpoint_of, made_of
from kafka_brokers import Broker
from marts import Server
from own_processes import printed
from sizes import sizes

from clicks.web import clicks_pipeline
from tidegate import CheckpointConfig, assembly
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

RETAINED = 30
#: Takes a checkpoint, in a process of its own: where there was a Spark Connect there is no local Spark after it.
TAKE = f"""
import json, sys
from functools import partial
from rich.console import Console
from clicks.web import clicks_pipeline
from tidegate import CheckpointConfig, assembly
from tidegate.cli.run import new_request, run_checkpoint

pipeline = clicks_pipeline(checkpoints=CheckpointConfig(retained={RETAINED}), **json.loads(sys.argv[1]))
coordinator = assembly.open_coordinator(pipeline)
outcome = run_checkpoint(coordinator, pipeline, partial(coordinator.trigger, new_request()), Console(quiet=True))
print(outcome.record.checkpoint_id)
"""


@sizes("checkpoints", sample=2, whole=10)
def test_tables_are_those_of_the_straight_run_after_a_restore_and_go_on_with_a_topic_made_anew(
    checkpoints: int,
    broker: Broker,
    tmp_path: Path,
    postgres_url: str,
    connect_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"DATABASE_URL": postgres_url, "SPARK_REMOTE": connect_server}.items():
        monkeypatch.setenv(f"TIDEGATE_{name}", value)
    monkeypatch.chdir(tmp_path)
    site = Site(broker, Server(postgres_url), tmp_path)
    pipeline = clicks_pipeline(checkpoints=CheckpointConfig(retained=RETAINED), **site.given)
    coordinator = assembly.open_coordinator(pipeline, Settings.from_environment(), postgres_url)

    def take() -> int:
        return int(printed(TAKE, json.dumps(site.given)).split()[-1])

    cuts = {}
    for number in range(checkpoints):
        if number == checkpoints // 2:
            site.grow(5)
        site.click(150)
        id_, cut = take(), site.read_cut()
        assert cut is not None
        cuts[id_] = cut
    site.end()
    take()
    site.check_end()
    straight, read = site.read_cut(), site.read()
    assert straight is not None
    with pytest.raises(CheckpointError, match="--leave"):
        coordinator.restore(ToCheckpoint(checkpoints), Accepted())

    for target in sorted(cuts, reverse=True):
        coordinator.restore(ToCheckpoint(target), Accepted(leave=("minutes_topic", "campaigns_topic")))
        cut = site.read_cut()
        assert cut is not None
        assert (cut.tables, cut.lake) == (cuts[target].tables, cuts[target].lake), f"checkpoint {target}"
        again, cut = take(), site.read_cut()
        assert cut is not None
        assert (cut.tables, cut.lake) == (straight.tables, straight.lake), f"after checkpoint {target}"
        assert site.read() == read
        for name, records in site.topics().items():
            branch = [each for each in records if checkpoint_of(each) <= target or checkpoint_of(each) == again]
            assert made_of(name, branch) == cut.tables[name], f"{name} after checkpoint {target}"

    # A broker without ids of topics shows it only by partitions that end before the position, as all of them do here.
    broker.delete(site.clicks)
    broker.topic(5, site.clicks)
    site.click(20)
    with pytest.raises(AssertionError, match="tidegate source skip"):
        take()
    coordinator.skip("clicks")
    take()
    cut = site.read_cut()
    assert cut is not None
    site.check_cut(cut)
    assert site.read() == read + 20
