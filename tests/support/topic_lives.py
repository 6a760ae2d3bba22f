"""A topic that others write to, and a reader of it that polls as checkpoints do, dies and is restored."""

import json
from typing import Any

import pyarrow as pa

from tidegate import KafkaSource
from tidegate.ports import Segment, Snapshot, SourceContext

IDS = pa.schema([("id", pa.int64())])


class TopicReader:
    """Polls all splits as checkpoints do, each time by a new source."""

    def __init__(self, topic: str, splits: int = 1, columns: pa.Schema = IDS, **options: Any) -> None:
        self.topic, self.columns = topic, columns
        self.options = {"splits": splits, "schema": "id BIGINT", **options}
        self.taken: dict[int, Snapshot] = {}  # by split

    def make(self, **other: Any) -> KafkaSource:
        return KafkaSource(self.topic, **{**self.options, **other})

    def poll(self, source: KafkaSource | None = None, max_bytes: int | None = None, **other: Any) -> list[Segment]:
        """The segments of one checkpoint."""
        source = source or self.make(**other)
        segments, taken = [], {}
        for split in range(source.splits):
            beside = [each for number, each in self.taken.items() if number != split]
            context = SourceContext(None, 1, "x", beside, max_bytes)
            segment, snapshot = source.poll(split, self.taken.get(split), context)
            taken[split] = Snapshot((), json.loads(json.dumps(snapshot.position)))
            assert source.replay(split, self.taken.get(split), taken[split], None) == segment
            segments += [segment] if segment is not None else []
        self.taken = taken
        return segments

    def rows(self, segments: list[Segment], **other: Any) -> list[dict[str, Any]]:
        reader = self.make(**other).arrow_reader(segments)
        return [row for batch in reader.read(self.columns) for row in batch.to_pylist()]

    def ids(self, **other: Any) -> list[int]:
        return sorted(row["id"] for row in self.rows(self.poll(**other), **other))


def values(*ids: int) -> list[str]:
    return [json.dumps({"id": each}) for each in ids]
