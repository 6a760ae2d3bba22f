"""A pipeline that reads a topic: every click, and counts by page."""

from tidegate import CheckpointConfig, KafkaSource, Pipeline, PostgresSink, count, sum_


def clicks_pipeline(topic: str, splits: int = 1, checkpoints: CheckpointConfig | None = None) -> Pipeline:
    pipeline = Pipeline("clicks", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    place = {"place": "partition", "number": "offset"}
    source = KafkaSource(topic, splits=splits, schema="id BIGINT, page STRING", metadata=place, max_rows=1500)
    clicks = pipeline.source("clicks", source)
    clicks.sink("clicks", PostgresSink("clicks"))
    pages = clicks.key_by("page").aggregate("pages", clicks=count(), ids=sum_("id"))
    pages.sink("pages", PostgresSink("pages", mode="upsert", key="page"))
    return pipeline
