"""Topics that have what an operator's state has: who keeps the last record of each key lacks none, and has none that
has left, also where a checkpoint gives a topic all rows.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_brokers import Broker
from upserting_marts import UpsertingMarts

from tidegate import KafkaSink

pytestmark = pytest.mark.spark


class UpsertedTopic(UpsertingMarts):
    """One topic. Where it `derives`, it has the rows whose value is below 50."""

    def __init__(self, derives: bool, broker: Broker, topic: str, *given: Any) -> None:
        self.derives, self.broker, self.topic = derives, broker, topic
        super().__init__(*given)

    def sinks(self) -> dict[str, Any]:
        return {"mart": KafkaSink(self.topic, mode="upsert", key="k")}

    def shown(self, state: Any) -> Any:
        return state.transform(lambda rows: rows.where("v < 50")) if self.derives else state

    def check(self, besides: dict[str, int] | None = None) -> None:
        latest = {each.key().decode(): each.value() for each in self.broker.messages(self.topic)}
        found = {key: json.loads(value)["v"] for key, value in latest.items() if value is not None}
        expected = {k: v for k, v in self.state.items() if v < 50 or not self.derives}
        assert found == {**(besides or {}), **expected}

    def rescale(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.reopen(**self.sinks())


@pytest.mark.parametrize("derives", [False, True])
def test_keys_that_leave_with_a_checkpoint_that_gives_all_rows_are_removed(
    derives: bool, spark: Any, store: Any, home: Path, broker: Broker
) -> None:
    topic = UpsertedTopic(derives, broker, broker.topic(2), spark, store, home, None, None)
    topic.take(a=1, b=2, c=3, d=4)
    topic.check()
    assert topic.whole(topic.take(b=-5)) == set()
    topic.check()
    topic.rescale(2)
    assert topic.whole(topic.take(a=-10, c=60, e=11)) == {"mart"}
    topic.check()
    topic.rescale(1)
    assert topic.whole(topic.take(c=-70, d=-71, e=-72)) == {"mart"}
    assert topic.state == {}
    topic.check()


@pytest.mark.parametrize("derives", [False, True])
def test_keys_of_the_restored_checkpoint_that_leave_behind_it_are_removed(
    derives: bool, spark: Any, store: Any, home: Path, broker: Broker
) -> None:
    topic = UpsertedTopic(derives, broker, broker.topic(2), spark, store, home, None, None)
    kept = topic.take(a=1, b=2, c=3)
    topic.take(b=20, left=30)
    topic.restore(kept)
    del topic.source.rows[0][3:]  # the wrong events are not read again
    assert topic.whole(topic.take(c=-40, d=4)) == {"mart"}
    topic.check(besides={"left": 30})
    assert topic.whole(topic.take(a=-50)) == set()
    topic.check(besides={"left": 30})
