"""A Spark driver in a process of its own, to be killed or stopped: a whole checkpoint of the orders pipeline
for each word of a request.

Says `ready` when its session is up and `done` at the end, one line each, so that a test can choose its moment.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

SLOW_SECONDS = 3


def _slowly(df: Any) -> Any:
    """Takes a few seconds on the executors, so that there is a middle of the snapshot to die in."""

    def wait(batches: Any) -> Any:
        time.sleep(SLOW_SECONDS)
        yield from batches

    return df.mapInArrow(wait, df.schema)


def main(home: str, database_url: str, request: str, slow: str) -> None:
    from orders import orders_pipeline
    from worlds import Judge

    from tidegate import assembly
    from tidegate.settings import Settings

    root = Path(home)
    storage = os.environ.get("TIDEGATE_STORAGE") or str(root / "checkpoints")
    cache = os.environ.get("TIDEGATE_CACHE", str(root / "cache")) or None
    settings = Settings(root, storage, cache, root / "docs")
    pipeline = orders_pipeline(root, slow=_slowly if slow == "slow" else None)
    coordinator = assembly.open_coordinator(pipeline, settings, database_url)
    region = assembly.open_region(pipeline, settings=settings)
    print("ready", flush=True)
    for each in request.split():
        checkpoint_id = cast(Any, coordinator.trigger(each)).checkpoint_id
        coordinator.snapshot(checkpoint_id, region)
        coordinator.validate(checkpoint_id, Judge(True))
        coordinator.finalize(checkpoint_id)
        coordinator.notify(checkpoint_id)
    print("done", flush=True)


class Killable:
    """A process of a script in this folder, with its JVM in the same process group where Spark is local."""

    def __init__(self, script: str, home: Path, arguments: list[str], spark: dict[str, str]) -> None:
        self.errors = (home / f"{Path(script).stem}-{time.monotonic_ns()}.log").open("w+")
        places = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, script, str(home), *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
            env={**os.environ, **spark, "PYTHONPATH": os.pathsep.join(places)},
        )

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self.log()

    def send(self, number: signal.Signals) -> None:
        """To Python and, where there is one, its JVM; a process that has ended is left alone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float = 120) -> int:
        code = self._process.wait(seconds)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def finish(self, seconds: float = 120) -> None:
        """Run to the end, which must be a good one."""
        code = self.wait(seconds)
        assert code == 0, self.log()

    def close(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()
        self.errors.close()

    def log(self) -> str:
        self.errors.flush()
        return Path(self.errors.name).read_text()[-6000:]


class Driver(Killable):
    """A whole checkpoint of the orders pipeline for each word of `request`."""

    def __init__(self, home: Path, database_url: str, request: str, spark: dict[str, str], slow: bool = False) -> None:
        super().__init__(__file__, home, [database_url, request, "slow" if slow else "fast"], spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
