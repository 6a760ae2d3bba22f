"""A continuous run of the orders pipeline in a process of its own, to be killed."""

import json
import sys
from pathlib import Path
from typing import Any

from driver import Killable


def main(home: str, database_url: str, config: str) -> None:
    from orders import orders_pipeline

    from tidegate import assembly
    from tidegate.protocol.facts.errors import CheckpointError
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


class RegionDriver(Killable):
    """Runs the orders pipeline on and on, with these options, on this Spark server or one of its own."""

    def __init__(self, home: Path, database_url: str, remote: str | None = None, **config: Any) -> None:
        spark = {"TIDEGATE_SPARK_REMOTE": remote} if remote else {"TIDEGATE_SPARK_MASTER": "local[2]"}
        super().__init__(__file__, home, [database_url, json.dumps(config)], spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
