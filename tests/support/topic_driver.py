"""A pipeline that reads a topic in a process of its own, to be killed: one checkpoint after the other, or a continuous
run, aligned or not.

Says `ready` when it begins.
"""

import sys
from functools import partial
from pathlib import Path

from driver import Killable

from tidegate import CheckpointConfig, KafkaSource, Pipeline, PostgresSink, assembly, count, sum_


def clicks_pipeline(topic: str, splits: int = 1, mode: str = "scheduled") -> Pipeline:
    checkpoints = CheckpointConfig(interval="500 ms", retained=20, unaligned=mode == "unaligned")
    pipeline = Pipeline("clicks", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    place = {"place": "partition", "number": "offset"}
    source = KafkaSource(topic, splits=splits, schema="id BIGINT, page STRING", metadata=place, max_rows=1500)
    clicks = pipeline.source("clicks", source)
    clicks.sink("clicks", PostgresSink("clicks"))
    pages = clicks.key_by("page").aggregate("pages", clicks=count(), ids=sum_("id"))
    pages.sink("pages", PostgresSink("pages", mode="upsert", key="page"))
    return pipeline


def main(_home: str, database_url: str, mode: str, topic: str, splits: str) -> None:
    from tidegate.settings import Settings

    settings, pipeline = Settings.from_environment(), clicks_pipeline(topic, int(splits), mode)
    if mode != "scheduled":
        run = assembly.open_continuous(pipeline, settings=settings, database_url=database_url)
        print("ready", flush=True)
        run.run(lambda: False)
        return
    from rich.console import Console

    from tidegate.cli.run import new_request, run_checkpoint, unfinished_request

    coordinator, store = assembly.open_coordinator(pipeline, settings, database_url), assembly.open_store(database_url)
    print("ready", flush=True)
    while True:
        request = unfinished_request(store, pipeline.name) or new_request()
        run_checkpoint(coordinator, pipeline, partial(coordinator.trigger, request), Console(stderr=True))


class TopicDriver(Killable):
    """`mode` is `scheduled`, `continuous` or `unaligned`."""

    def __init__(self, home: Path, database_url: str, mode: str, spark: str, topic: str, splits: int) -> None:
        given = {"TIDEGATE_SPARK_REMOTE": spark, "TIDEGATE_DATABASE_URL": database_url, "TIDEGATE_HOME": str(home)}
        super().__init__(__file__, home, [database_url, mode, topic, str(splits)], given)


if __name__ == "__main__":
    main(*sys.argv[1:])
