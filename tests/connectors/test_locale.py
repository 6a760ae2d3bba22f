"""File names that are not ASCII, under `LC_ALL=C`: a process of its own, as a locale is for life."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from spark_checkpoints import Checkpoints
from tidegate import FileSource, ParquetSink, Pipeline, count
from tidegate.spark.session.sessions import SparkSettings, open_session

root = Path(sys.argv[1]) / "données 表"
pipeline = Pipeline("names", parallelism=1)
for kind in ("csv", "parquet"):
    (root / kind / "été").mkdir(parents=True)
    rows = pipeline.source(kind, FileSource(str(root / kind), kind, schema="k string"))
    seen = rows.key_by("k").aggregate(f"{kind}_seen", n=count())
    seen.sink(kind, ParquetSink(str(root / "tablé" / kind), mode="latest"))
(root / "csv" / "été" / "ré %20+{a}.csv").write_text("k\\nrè\\nré\\n", encoding="utf-8")
pq.write_table(pa.table({"k": ["rè", "ré"]}), root / "parquet" / "été" / "ré.parquet")
checkpoints = Checkpoints(pipeline, open_session(SparkSettings.local()), root)
checkpoints.take()
for kind in ("csv", "parquet"):
    staged = checkpoints.rows(f"sink:{kind}")
    checkpoints.commit(kind)
    (table,) = (root / "tablé" / kind / "current").glob("**/*.parquet")
    print(json.dumps({"staged": staged, "visible": sorted(pq.read_table(table).column("k").to_pylist())}))
"""


@pytest.mark.long
def test_names_that_are_not_ascii_are_read_and_written_under_lc_all_c(tmp_path: Path) -> None:
    support = Path(__file__).parent.parent / "support"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**environment, "LC_ALL": "C", "PYTHONPATH": str(support)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    facts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert facts == [{"staged": [["rè", 1], ["ré", 1]], "visible": ["rè", "ré"]}] * 2
