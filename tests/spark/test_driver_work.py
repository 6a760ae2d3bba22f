"""No row of work in the driver: on a cluster, ten times as many rows cost it no ten times as much."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from spark_clusters import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

#: Both more than what one Spark task takes of a batch by itself.
FEW, MANY = 200_000, 2_000_000
SUPPORT = Path(__file__).parent.parent / "support"


def test_what_the_driver_does_does_not_grow_with_the_rows(cluster: Cluster, tmp_path: Path, postgres_url: str) -> None:
    rows = [FEW] * 4 + [MANY, FEW, MANY]  # the first of a process are for warming up
    places = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(SUPPORT / "driver_work.py"), str(tmp_path), postgres_url, *map(str, rows)]
    environment = {**os.environ, **cluster.driver({}), "PYTHONPATH": places}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    costs = [(int(each), float(seconds)) for each, seconds in map(str.split, done.stdout.splitlines())]
    print(costs)
    few = min(seconds for count, seconds in costs[2:] if count == FEW)
    many = min(seconds for count, seconds in costs[2:] if count == MANY)
    # The driver waits longer, and looks more often. A row that Python touches costs a microsecond: two seconds in all.
    assert many - few < 1.0, costs
    assert ds.dataset(str((tmp_path / "totals" / "current").resolve())).count_rows() > MANY / 2
