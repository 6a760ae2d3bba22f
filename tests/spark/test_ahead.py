"""A row far ahead of the clock moves no watermark: it is malformed, for every consumer and every retry alike."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from spark_checkpoints import Checkpoints

from tidegate import FileSource, ParquetSink, Pipeline, count, window
from tidegate.clock import SystemClock
from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import AcknowledgeResult, SubtaskId

pytestmark = pytest.mark.spark

TEN = datetime(2026, 1, 1, 10)


def land(root: Path, name: str, *lines: str) -> None:
    (root / "landing").mkdir(exist_ok=True)
    (root / "landing" / name).write_text("\n".join(("k,at", *lines)) + "\n")


def clicks(root: Path, quarantine: bool = True, **options: Any) -> Pipeline:
    pipeline = Pipeline("clicks", parallelism=1)
    kept = {"malformed": "quarantine", "quarantine": ParquetSink(str(root / "bad"))} if quarantine else {}
    source = FileSource(str(root / "landing"), schema="k string, at timestamp", **kept)
    rows = pipeline.source("rows", source, event_time="at", **options)
    rows.key_by("k").aggregate("hours", window("at", "1 hour"), n=count())
    rows.sink("raw", ParquetSink(str(root / "raw")))
    rows.key_by("k").aggregate("all", n=count())
    return pipeline


class Tomorrow(SystemClock):
    """A clock that can be set."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


def keys_of(checkpoints: Checkpoints, sink: str) -> list[Any]:
    return sorted(row[0] for row in checkpoints.frame(str(Target(TargetKind.SINK, sink))).select("k").collect())


def test_a_row_far_ahead_goes_to_the_quarantine_and_no_window_is_closed_by_it(spark: Any, tmp_path: Path) -> None:
    checkpoints = Checkpoints(clicks(tmp_path), spark, tmp_path)
    land(tmp_path, "1.csv", "a,2026-01-01 10:05:00", "b,8000-01-01 00:00:00", "c,", "d,oops")
    land(tmp_path, "2.csv", "e,2999-01-01 00:00:00", "f,2026-01-01 10:10:00")
    checkpoints.take()
    assert checkpoints.rows("state:hours") == [(key, TEN, TEN + timedelta(hours=1), 1) for key in "af"]
    assert checkpoints.rows("state:all") == [(key, 1) for key in "acf"]
    assert keys_of(checkpoints, "raw") == ["a", "c", "f"]
    bad = checkpoints.frame("sink:rows_quarantine").collect()
    assert sorted((row["record"], row["reason"]) for row in bad if row["file"] is None) == [
        (
            f'{{"k":"{key}","at":"{year}-01-01T00:00:00.000Z"}}',
            f"event time {year}-01-01 00:00:00 is more than 1 d ahead of the clock",
        )
        for key, year in (("b", 8000), ("e", 2999))
    ]
    land(tmp_path, "3.csv", "a,2026-01-01 10:59:59")
    checkpoints.take()
    assert checkpoints.rows("state:hours")[0] == ("a", TEN, TEN + timedelta(hours=1), 2)


def test_a_retry_leaves_out_the_same_rows_though_the_clock_has_moved(spark: Any, tmp_path: Path) -> None:
    clock = Tomorrow()
    checkpoints = Checkpoints(clicks(tmp_path), spark, tmp_path, clock=clock)
    soon = f"{clock.now() + timedelta(days=2):%Y-%m-%d %H:%M:%S}"
    land(tmp_path, "1.csv", f"b,{soon}")
    checkpoints.trigger()
    only_sources = {SubtaskId("rows", 0)}
    with pytest.raises(Exception, match="has ended or a later attempt"):
        checkpoints.attempt_once(lambda id_: None if id_ in only_sources else AcknowledgeResult.UNKNOWN)
    clock.ahead = timedelta(days=3)
    checkpoints.attempt_once()
    checkpoints.complete()
    assert checkpoints.rows("state:hours") == []
    assert checkpoints.rows("state:all") == []


def test_without_a_quarantine_the_checkpoint_fails_and_names_the_row(spark: Any, tmp_path: Path) -> None:
    checkpoints = Checkpoints(clicks(tmp_path, quarantine=False), spark, tmp_path)
    land(tmp_path, "1.csv", "a,2026-01-01 10:05:00", "b,2999-01-01 00:00:00")
    checkpoints.trigger()
    with pytest.raises(MalformedRowsError) as raised:
        checkpoints.attempt_once()
    said = str(raised.value)
    assert "1 of the rows that source 'rows' of pipeline 'clicks' has read are malformed: their at is more than" in said
    assert 'One has 2999-01-01 00:00:00: {"k":"b","at":"2999-01-01T00:00:00.000Z"}' in said
    assert checkpoints.acknowledged == {}


def test_how_far_ahead_is_for_the_source_to_say(spark: Any, tmp_path: Path) -> None:
    checkpoints = Checkpoints(clicks(tmp_path, quarantine=False, max_ahead=None), spark, tmp_path)
    land(tmp_path, "1.csv", "a,2999-01-01 00:00:00")
    checkpoints.take()
    assert checkpoints.rows("state:all") == [("a", 1)]
    with pytest.raises(PipelineDefinitionError, match=r"max_ahead=.* must not be negative"):
        clicks(tmp_path, max_ahead=timedelta(days=-1))
