"""A checkpoint to which nothing came, with three tables and the expectations of each: a table of current rows, one of
all changes, and one of the large ones. From the trigger until it is notified, through coordinator, Postgres and Spark.
"""

import json
import sys
from functools import partial
from pathlib import Path

import conditions
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from costs import measured
from judged_tables import SUITE, Tidegate

from tidegate import ParquetSink
from tidegate.pipeline.streams import Stream

KEYS = 100_000
REPETITIONS = 5, 30


def main() -> None:
    """The arguments are the directory to work in and the process of Postgres. The last line that is printed is JSON:
    the clock's and the processors' seconds of each."""
    root, process = Path(sys.argv[1]), int(sys.argv[2])
    (root / "landing").mkdir()
    rows = {"key": np.arange(KEYS), "value": np.arange(KEYS)}
    pq.write_table(pa.table(rows), root / "landing" / "first.parquet")
    side = Tidegate(root, "empty", tables=True, more=add_table)
    warm_ups, counted = conditions.repetitions(*REPETITIONS)
    costs = [measured(partial(side.take, number), process) for number in range(1 + warm_ups + counted)]
    side.region.session.stop()
    print(json.dumps(costs[1 + warm_ups :]))


def add_table(totals: Stream, root: Path) -> None:
    large = totals.transform(lambda rows: rows.where("total > 1000"))
    large.sink("large", ParquetSink(str(root / "large")), expect=SUITE)


if __name__ == "__main__":
    main()
