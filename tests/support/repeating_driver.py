"""A pipeline in a process of its own, to be killed: one checkpoint after the other, or a continuous run.

Says `ready` when it begins.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from driver import Killable

from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status

CHECKPOINTS = {"interval": "500 ms", "retained": 20}


def main(_home: str, database_url: str, mode: str, maker: str, given: str) -> None:
    from tidegate import CheckpointConfig, assembly
    from tidegate.settings import Settings

    module, name = maker.split(":")
    checkpoints = CheckpointConfig(**CHECKPOINTS, unaligned=mode == "unaligned")
    pipeline = getattr(import_module(module), name)(checkpoints=checkpoints, **json.loads(given))
    settings = Settings.from_environment()
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


class RepeatingDriver(Killable):
    """`mode` is `scheduled`, `continuous` or `unaligned`. `maker`: as `module:function`, what returns the pipeline,
    from its checkpoints' configuration and what is `given`."""

    def __init__(self, home: Path, database_url: str, mode: str, spark: str, maker: str, **given: Any) -> None:
        own = {"TIDEGATE_SPARK_REMOTE": spark, "TIDEGATE_DATABASE_URL": database_url, "TIDEGATE_HOME": str(home)}
        super().__init__(__file__, home, [database_url, mode, maker, json.dumps(given)], own)


def completed(store: PostgresCheckpointStore, pipeline: str) -> list[int]:
    """The newest first."""
    found = store.history(pipeline, 1000)
    return [record.checkpoint_id for record in found if record.status in (Status.COMPLETED, Status.SUBSUMED)]


@dataclass
class Lives:
    """The processes of a pipeline, one after the other, of which each but the last is killed. `make` starts one."""

    store: PostgresCheckpointStore
    pipeline: str
    make: Callable[[], Killable]
    random: Random

    def live(self, number: int) -> None:
        """One that is killed, some time after it began; each third has completed a checkpoint or more by then."""
        with closing(self.make()) as driver:
            driver.wait_ready()
            if number % 3 == 0:
                self._wait_for(driver, self.random.randint(1, 3))
            time.sleep(self.random.uniform(0, 3))
            assert driver.is_running(), driver.log()
            driver.send(signal.SIGKILL)

    def finish(self, is_done: Callable[[], bool]) -> None:
        """Run until it is done, and some checkpoints more: whatever is done twice is there by then, and all sinks have
        what they are to have."""
        with closing(self.make()) as driver:
            driver.wait_ready()
            self.wait_until(driver, is_done)
            self._wait_for(driver, 3)
            driver.send(signal.SIGKILL)

    def wait_until(self, driver: Killable, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 240
        while not is_done():
            assert driver.is_running(), driver.log()
            assert time.monotonic() < deadline, driver.log()
            self.store.wait_for_change(self.pipeline, 1)

    def wait_for_end(self, driver: Killable, seconds: float = 30) -> None:
        """One that dies by itself, or is killed if it has not by then."""
        deadline = time.monotonic() + seconds
        while driver.is_running() and time.monotonic() < deadline:
            self.store.wait_for_change(self.pipeline, 1)
        driver.send(signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL, driver.log()

    def _wait_for(self, driver: Killable, more: int) -> None:
        first = self._newest()
        self.wait_until(driver, lambda: self._newest() >= first + more)

    def _newest(self) -> int:
        return max(completed(self.store, self.pipeline), default=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
