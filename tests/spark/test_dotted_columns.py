"""Columns whose names have dots and backquotes, from files through an aggregate into tables."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_checkpoints import Checkpoints

from tidegate import FileSource, ParquetSink, Pipeline, count, max_, sum_

pytestmark = pytest.mark.spark

SCHEMA = "`a.b` STRING, `c``d.e` BIGINT, f BIGINT"


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_names_with_dots_are_columns_like_others(form: str, tmp_path: Path, spark: Any) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    if form == "csv":
        (landing / "1.csv").write_text("a.b,c`d.e,f\nx,1,2\nx,3,4\ny,5,6\n")
    elif form == "json":
        (landing / "1.json").write_text('{"a.b":"x","c`d.e":1,"f":2}\n{"a.b":"x","c`d.e":3}\n{"a.b":"y","c`d.e":5}\n')
    else:
        table = pa.table({"a.b": ["x", "x", "y"], "c`d.e": [1, 3, 5], "f": [2, 4, 6]})
        pq.write_table(table, landing / "1.parquet")
    pipeline = Pipeline("dotted", parallelism=2, max_parallelism=8)
    rows = pipeline.source("rows", FileSource(str(landing), form, schema=SCHEMA))  # type: ignore[arg-type]
    totals = rows.key_by("a.b").aggregate("totals", n=count(), total=sum_("c`d.e"), most=max_("c`d.e"))
    totals.sink("table", ParquetSink(str(tmp_path / "table"), mode="latest"))
    rows.sink("rows", ParquetSink(str(tmp_path / "rows")))
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    checkpoints.take()
    assert sorted(checkpoints.rows("state:totals")) == [("x", 2, 4, 3), ("y", 1, 5, 5)]
