"""A continuous run of the orders pipeline in a process of its own, to be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def main(home: str, database_url: str, config: str) -> None:
    from orders import orders_pipeline

    from tidegate import assembly
    from tidegate.protocol.errors import CheckpointError
    from tidegate.settings import Settings

    root = Path(home)
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    run = assembly.open_continuous(
        orders_pipeline(root, **json.loads(config)), settings=settings, database_url=database_url
    )
    print("ready", flush=True)
    try:
        run.run(lambda: False)
    except CheckpointError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


class RegionDriver:
    """The process, with its JVM in the same process group."""

    def __init__(self, home: Path, database_url: str, **config: Any) -> None:
        self.errors = (home / f"region-{time.monotonic_ns()}.log").open("w+")
        places = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(home), database_url, json.dumps(config)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "TIDEGATE_SPARK_MASTER": "local[2]", "PYTHONPATH": os.pathsep.join(places)},
        )

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self.log()

    def send(self, number: signal.Signals) -> None:
        """To Python and its JVM; a process that has ended is left alone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float = 120) -> int:
        code = self._process.wait(seconds)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def close(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()
        self.errors.close()

    def log(self) -> str:
        self.errors.flush()
        return Path(self.errors.name).read_text()[-6000:]


if __name__ == "__main__":
    main(*sys.argv[1:])
