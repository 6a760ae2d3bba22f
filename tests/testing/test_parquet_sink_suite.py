"""`ParquetSink` passes the suite for sinks, in both of its modes."""

import os
from pathlib import Path
from typing import Any

import pytest
from parquet_sinks import shown_rows

from tidegate import ParquetSink
from tidegate.sinks import fencing, publish
from tidegate.testing import SinkSuite


class TestAppend(SinkSuite[ParquetSink]):
    def sink(self, directory: Path) -> ParquetSink:
        return ParquetSink(str(directory), readable_for="0 s")

    def shown(self, sink: ParquetSink) -> list[dict[str, Any]]:
        return shown_rows(sink.table())


class TestLatest(TestAppend):
    def sink(self, directory: Path) -> ParquetSink:
        return ParquetSink(str(directory), mode="latest", readable_for="0 s")


def without_taking_away(*_: Any) -> None:
    """What older attempts have prepared stays where it is."""


def link_next_to(root: str, private: Any, version: str) -> None:
    """The link is prepared where every attempt prepares it."""
    following = os.path.join(root, "_following")
    if os.path.lexists(following):
        os.unlink(following)
    os.symlink(version, following)
    os.replace(following, os.path.join(root, "current"))


@pytest.mark.parametrize(
    ("place", "name", "mistake"),
    [(fencing, "_fence_older", without_taking_away), (publish, "point_to", link_next_to)],
    ids=["older attempts are not fenced", "the link is not the attempt's own"],
)
def test_a_missing_fence_is_noticed(
    place: Any, name: str, mistake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, mistake)
    with pytest.raises(AssertionError, match=r"After an older attempt, stopped before .*, went on"):
        TestLatest().test_a_commit_that_was_stopped_and_goes_on_after_later_ones_changes_nothing(tmp_path)


@pytest.mark.long
class TestMany(TestLatest):
    many = 1_000_000
