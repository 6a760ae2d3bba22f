"""The outbox pipeline in a process of its own, to be killed: one checkpoint after the other, or a continuous run.

Says `ready` when it begins.
"""

import sys
from functools import partial
from pathlib import Path

from driver import Killable


def main(_home: str, database_url: str, mode: str) -> None:
    from outbox.orders import orders_pipeline
    from tidegate import CheckpointConfig, assembly
    from tidegate.settings import Settings

    settings = Settings.from_environment()
    pipeline = orders_pipeline(checkpoints=CheckpointConfig(interval="500 ms", retained=20))
    if mode == "continuous":
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


class OutboxDriver(Killable):
    """`mode` is `scheduled` or `continuous`."""

    def __init__(self, home: Path, database_url: str, mode: str, spark: str) -> None:
        given = {"TIDEGATE_SPARK_REMOTE": spark, "TIDEGATE_DATABASE_URL": database_url, "TIDEGATE_HOME": str(home)}
        super().__init__(__file__, home, [database_url, mode], given)


if __name__ == "__main__":
    main(*sys.argv[1:])
