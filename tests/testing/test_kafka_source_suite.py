"""`KafkaSource` passes the suite for sources, on topics whose rows are written as `KafkaSink` writes them."""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from kafka_brokers import Broker

from tidegate import KafkaSource
from tidegate.kafka.formats import Format
from tidegate.testing import SourceSuite
from tidegate.testing.source_trials import SourceTrial

pytestmark = pytest.mark.timeout(600)


class TestKafkaSource(SourceSuite[KafkaSource]):
    other_columns = True
    every = 40
    many = 30_000

    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker, self.run = broker, uuid4().hex[:8]

    def trial(
        self, tmp_path: Path, request: pytest.FixtureRequest, columns: Mapping[str, str] | None = None
    ) -> SourceTrial:
        """The topic is there before the first poll."""
        trial = super().trial(tmp_path, request, columns)
        self.broker.topic(3, self._topic(trial.directory))
        return trial

    def source(self, directory: Path, columns: str) -> KafkaSource:
        return KafkaSource(self._topic(directory), splits=2, schema=columns, max_rows=self.many // 3)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        encoder = Format("json").encoder(rows.schema)
        for batch in rows.to_batches():
            self.broker.produce(self._topic(directory), encoder.encode(batch))

    def _topic(self, directory: Path) -> str:
        return f"{self.run}-{directory.name}"
