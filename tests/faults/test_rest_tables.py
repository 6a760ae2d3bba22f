"""Two tables of a REST catalog that change in one commit, killed before and after every effect of a checkpoint, against
a run that nothing interrupts."""

from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest
from rest_catalogs import rest_catalog
from sizes import sizes

from tidegate import CheckpointConfig, FileSource, IcebergSink, ParquetSink, Pipeline, sum_
from tidegate.iceberg.catalogs import close_catalogs
from tidegate.testing import crash_test

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

FILES = [{"landing/orders.csv": f"customer,cents\n{rows}\n"} for rows in ("ann,5\nbob,7", "bob,2", "ann,1\ncyd,3")]


@sizes("only", sample="commit_group", whole="")
def test_a_checkpoint_that_is_killed_anywhere_is_in_all_tables_once(
    only: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = numbers()

    def pipeline() -> Pipeline:
        """Each world has tables of its own in the one catalog."""
        space = f"world_{next(worlds)}"
        made = Pipeline("rest", parallelism=2, max_parallelism=16, checkpoints=CheckpointConfig(retained=2))
        orders = made.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        orders.sink("orders", IcebergSink(f"{space}.orders", catalog="lake"))
        totals.sink("files", ParquetSink("tables/files", mode="latest"))
        totals.sink("totals", IcebergSink(f"{space}.totals", "latest", catalog="lake"))
        return made

    with rest_catalog(tmp_path) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", server.url)
        close_catalogs()
        report = crash_test(pipeline, FILES, spark=spark, only=only)
        assert report.crashes >= (2 if only else 40)
        together = [tables for tables in server.commits() if len(tables) == 2]
        assert len(together) > 2 * report.crashes
