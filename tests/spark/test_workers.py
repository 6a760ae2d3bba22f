"""What a Python worker of a local session costs before it does anything."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import tidegate

pytestmark = pytest.mark.spark


def test_workers_of_a_local_session_use_the_installed_packages_and_share_the_imports(spark: SparkSession) -> None:
    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import gc
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        found = {name: [str(sys.modules[name].__file__)] for name in ("tidegate", "pyspark")}
        yield pa.RecordBatch.from_pydict({**found, "shared": [gc.get_freeze_count() > 10_000]})

    answer = spark.range(0, 1, 1, 1).mapInArrow(where, "tidegate string, pyspark string, shared boolean").toArrow()

    assert answer.to_pylist() == [{"tidegate": tidegate.__file__, "pyspark": pyspark.__file__, "shared": True}]


def test_a_report_does_not_bring_pandas_into_a_worker() -> None:
    program = """
import sys
from tidegate.dataflow.reports import Report
from tidegate.spark.executor.report_rows import decode_reports, encode_reports
report = Report("carriers", 3, (), {"rows_in": 7})
rows = encode_reports(3, [report])
print("pandas" in sys.modules)
print(decode_reports(rows["subtask"][0].as_py(), rows["reports"][0].as_py()) == [report])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == ["False", "True"]
