"""Clicks on the pages of a site, counted by page and minute, and by campaign. A file maps pages to campaigns.

Counts go to Postgres, to Iceberg and to topics. All of them cover the same clicks: the tables change in the transaction
that completes the checkpoint, and the topics by one transaction after it.
"""

from tidegate import (
    CheckpointConfig,
    FileSource,
    IcebergSink,
    KafkaSink,
    KafkaSource,
    Pipeline,
    PostgresSink,
    count,
    expect,
    suite,
    window,
)

#: Values are JSON. The time of a click is that of its record.
CLICKS = "id BIGINT, page STRING, visitor BIGINT"
PAGES = "page STRING, campaign STRING"
#: The largest delay between clicks of different partitions.
DELAY = "2 min"
#: A page that the file lacks fails the checkpoint, and none of its rows become visible.
KNOWN = suite("known pages", expect("column_values_to_not_be_null", column="campaign"))


def clicks_pipeline(
    clicks: str = "clicks",
    pages: str = "landing/pages.csv",
    minutes: str = "minutes",
    campaigns: str = "campaigns",
    checkpoints: CheckpointConfig | None = None,
    max_rows: int | None = 100_000,
) -> Pipeline:
    """Return the pipeline. `clicks`, `minutes` and `campaigns` are topics."""
    pipeline = Pipeline("web", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    topic = KafkaSource(clicks, splits=2, schema=CLICKS, metadata={"at": "timestamp"}, max_rows=max_rows)
    clicked = pipeline.source("clicks", topic, event_time="at", delay=DELAY)
    known = pipeline.source("pages", FileSource(pages, schema=PAGES, mode="snapshot", key=["page"]))

    joined = clicked.join(known, name="joined", key=["page"], how="left", as_of="checkpoint")
    joined.sink("clicks_lake", IcebergSink("web.clicks"), expect=KNOWN)

    by_minute = clicked.key_by("page").aggregate("by_minute", window("at", "1 minute"), clicks=count())
    by_minute.sink("minutes", PostgresSink("minutes"))
    by_minute.sink("minutes_lake", IcebergSink("web.minutes"))
    by_minute.sink("minutes_topic", KafkaSink(minutes, key="page"))
    by_minute.late.sink("late", PostgresSink("late_clicks"))

    by_campaign = joined.key_by("campaign").aggregate("by_campaign", clicks=count())
    by_campaign.sink("campaigns", PostgresSink("campaigns", mode="upsert", key="campaign"))
    by_campaign.sink("campaigns_lake", IcebergSink("web.campaigns", mode="latest"))
    by_campaign.sink("campaigns_topic", KafkaSink(campaigns, mode="upsert", key="campaign"))
    return pipeline
