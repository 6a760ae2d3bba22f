"""The continuous run of `soak.py`: two tables that are judged, a checkpoint a second, a history that is rolled up soon.

Its argument is the directory to work in. It runs until it is asked to end, or killed.
"""

import sys
from pathlib import Path

from judged_tables import SUITE

from tidegate import CheckpointConfig, CheckpointHistory, FileSource, ParquetSink, Pipeline, assembly, count, max_
from tidegate.cli.continuous import stopping_on_signals
from tidegate.settings import Settings
from tidegate.spark.session.sessions import SparkSettings

PARALLELISM = 2
ROLLED_UP_AFTER = 100  # checkpoints


def main() -> None:
    root = Path(sys.argv[1])
    history = CheckpointHistory(checkpoints=ROLLED_UP_AFTER)
    pipeline = Pipeline("soak", PARALLELISM, checkpoints=CheckpointConfig(interval="1 s", history=history))
    rows = pipeline.source(
        "rows", FileSource(str(root / "landing"), format="parquet", schema="key bigint, file bigint")
    )
    totals = rows.key_by("key").aggregate("totals", events=count(), largest=max_("file"))
    totals.sink("current", ParquetSink(str(root / "current"), mode="latest"), expect=SUITE)
    totals.sink("changes", ParquetSink(str(root / "changes")), expect=SUITE)
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    with stopping_on_signals() as stopping:
        assembly.open_continuous(pipeline, SparkSettings.local(PARALLELISM), settings).run(stopping.is_set)


if __name__ == "__main__":
    main()
