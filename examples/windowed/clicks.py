"""Clicks on pages, aggregated by windows and sessions of event time.

* `hourly`: clicks per page and hour, and the last visitor.
* `trend`: per hour, beginning at each quarter: clicks, pages, and the first three visitors.
* `daily`: clicks per page and day in Berlin, from the hours.
* `rushes`: sessions that end after half an hour without clicks: clicks, distinct times, and the first two of them.
* `busy`: sessions and their clicks per day in Berlin on which they end.
* `revised`: as `hourly`, but an hour that gets clicks within two hours is emitted again, as its next version.

All other results are final when they are emitted. Clicks that arrive too late are kept in tables of their own.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate import (
    CheckpointConfig,
    ParquetSink,
    Pipeline,
    approx_count_distinct,
    collect_list,
    count,
    count_distinct,
    last,
    max_,
    session_window,
    sum_,
    window,
)

CLICKS = "page string, visitor bigint, at timestamp"
DELAY, GAP, LATENESS = "10 min", "30 min", "2 h"


def clicks_pipeline(
    source: Any,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
    delay: str = DELAY,
) -> Pipeline:
    pipeline = Pipeline("clicks", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    clicks = pipeline.source("clicks", source, event_time="at", delay=delay)
    by_page = clicks.key_by("page")
    hourly = by_page.aggregate(
        "hourly", window("at", "1 hour"), clicks=count(), latest=max_("at"), left=last("visitor", by="at")
    )
    visitors = collect_list("visitor", limit=3, by="at")
    trend = clicks.key_by().aggregate(
        "trend", window("at", "1 hour", slide="15 min"), clicks=count(), pages=count_distinct("page"), visitors=visitors
    )
    days = window("window_start", "1 day", time_zone="Europe/Berlin")
    daily = hourly.key_by("page").aggregate("daily", days, clicks=sum_("clicks"))
    moments, first_two = approx_count_distinct("at"), collect_list("at", limit=2)
    rushes = by_page.aggregate(
        "rushes", session_window("at", gap=GAP), clicks=count(), latest=max_("at"), moments=moments, first_two=first_two
    )
    ends = window("window_end", "1 day", time_zone="Europe/Berlin")
    busy = rushes.key_by().aggregate("busy", ends, rushes=count(), clicks=sum_("clicks"))
    revised = by_page.aggregate(
        "revised", window("at", "1 hour"), allowed_lateness=LATENESS, emit="versions", clicks=count(), latest=max_("at")
    )
    streams = {"hourly": hourly, "revised": revised, "trend": trend, "daily": daily, "rushes": rushes, "busy": busy}
    streams |= {"late": hourly.late, "late_rushes": rushes.late, "late_revised": revised.late}
    for name, stream in streams.items():
        stream.sink(name, wrap_sink(ParquetSink(str(tables / name))))
    return pipeline
