"""Visits to pages, with approximate figures: visitors, the median and 99th percentile of the time, and top countries.

Slow visits are aggregated by country: distinct pages, and the 90th percentile of the time.
"""

from pathlib import Path
from typing import Any

from tidegate import (
    CheckpointConfig,
    ParquetSink,
    Pipeline,
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    count,
)

VISITS = "page string, visitor bigint, country string, ms double"
SLOW = "ms > 1"


def visits_pipeline(
    source: Any, tables: Path, parallelism: int = 2, checkpoints: CheckpointConfig | None = None
) -> Pipeline:
    pipeline = Pipeline("visits", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    visits = pipeline.source("visits", source)
    pages = visits.key_by("page").aggregate(
        "pages",
        visits=count(),
        visitors=approx_count_distinct("visitor", rsd=0.02),
        ms=approx_percentile("ms", [0.5, 0.99]),
        countries=approx_top_k("country", 3),
    )
    slow = visits.transform(lambda rows: rows.where(SLOW)).key_by("country")
    by_country = slow.aggregate("slow", pages=approx_count_distinct("page"), ms=approx_percentile("ms", 0.9))
    pages.sink("pages", ParquetSink(str(tables / "pages"), mode="latest"))
    by_country.sink("slow", ParquetSink(str(tables / "slow"), mode="latest"))
    return pipeline
