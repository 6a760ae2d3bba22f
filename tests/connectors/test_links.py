"""Links in a directory: a file is read once whatever leads to it, and nothing outside unless the source says so."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from landed_files import put

from tidegate.ports import LeftToSparkError
from tidegate.protocol.facts.errors import ConfigurationError, SourceChangedError
from tidegate.sources.files import FileSource

SCHEMA = "k STRING, v INT"


def read(source: FileSource, context: Any, checkpoint_id: int = 1, restored: Any = None) -> tuple[list[str], Any]:
    segment, snapshot = source.poll(0, restored, context(checkpoint_id))
    return sorted(file[0] for file in segment.reference["files"]) if segment else [], snapshot


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("recursive", [True, False])
def test_a_file_is_read_once_whatever_leads_to_it(
    follow_links: bool, recursive: bool, landing: Path, context: Any
) -> None:
    """Also through links to its own directory, and to those above it: the listing ends."""
    put(landing, "day1/x.csv")
    put(landing, "y.csv")
    (landing / "latest").symlink_to("day1", target_is_directory=True)
    (landing / "day1" / "up").symlink_to("..")
    (landing / "day1" / "here").symlink_to(landing)
    (landing / "z.csv").symlink_to("y.csv")
    (landing / "gone.csv").symlink_to("nowhere")
    (landing / "round.csv").symlink_to("round.csv")
    source = FileSource("landing", schema=SCHEMA, follow_links=follow_links, recursive=recursive)
    expected = ["day1/x.csv", "y.csv"] if recursive else ["y.csv"]
    found, snapshot = read(source, context)
    assert found == expected
    put(landing, "day2/x.csv")
    (landing / "latest").unlink()
    (landing / "latest").symlink_to("day2", target_is_directory=True)
    assert read(source, context, 2, snapshot)[0] == (["day2/x.csv"] if recursive else [])


def test_a_hard_link_is_a_file_of_its_own(landing: Path, context: Any) -> None:
    os.link(put(landing, "x.csv"), landing / "y.csv")
    assert read(FileSource("landing", schema=SCHEMA), context)[0] == ["x.csv", "y.csv"]


LEADING_AWAY = {
    "a file": ("s/leak.csv", "elsewhere/secret.csv", "../../elsewhere/secret.csv"),
    "a directory": ("s", "elsewhere", "../elsewhere"),
    "the directory above": ("up", "", ".."),
    "what is hidden": ("x.csv", "landing/.store/1.csv", ".store/1.csv"),
}


@pytest.mark.parametrize("what", LEADING_AWAY)
def test_what_is_not_read_under_its_own_name_is_refused(what: str, home: Path, landing: Path, context: Any) -> None:
    put(home, "elsewhere/secret.csv", "k,v\nhunter2,1\n")
    put(landing, ".store/1.csv")
    put(landing, "good.csv")
    name, shown, target = LEADING_AWAY[what]
    (landing / name).parent.mkdir(exist_ok=True)
    (landing / name).symlink_to(target)
    with pytest.raises(ConfigurationError) as raised:
        FileSource("landing", schema=SCHEMA).poll(0, None, context(1))
    assert f"{landing}/{name} is a link to {home / shown}, which is not read under a name of its own" in str(
        raised.value
    )
    assert "follow_links=True" in str(raised.value)


def test_where_a_link_leads_to_nothing_that_would_be_read_it_is_left_alone(
    home: Path, landing: Path, context: Any
) -> None:
    put(home, "elsewhere/README")
    put(landing, "a.csv")
    for name in ("README", ".hidden.csv", "x.csv.tmp"):
        (landing / name).symlink_to("../elsewhere/README")
    (landing / ".git").mkdir()
    (landing / ".git" / "objects").symlink_to("../../elsewhere")
    (landing / "pipe.csv").symlink_to("/dev/null")
    assert read(FileSource("landing", schema=SCHEMA, glob="*.csv"), context)[0] == ["a.csv"]
    (landing / "deep").symlink_to("../elsewhere")
    assert read(FileSource("landing", schema=SCHEMA, glob="*.csv", recursive=False), context)[0] == ["a.csv"]


def test_links_are_followed_to_what_they_lead_to_each_file_once(home: Path, landing: Path, context: Any) -> None:
    put(home, "day1/x.csv")
    put(home, "day1/deep/y.csv")
    put(home, "day1/_temporary/z.csv")
    put(home, "blob")
    put(landing, ".store/1.csv")
    put(landing, "own.csv")
    (home / "day1" / "back").symlink_to(landing)
    (home / "day1" / "up").symlink_to("..")
    (landing / "a").symlink_to("../day1")
    (landing / "b").symlink_to("../day1/deep")
    (landing / "c.csv").symlink_to("../day1/x.csv")
    (landing / "d.csv").symlink_to(".store/1.csv")
    (landing / "e.csv").symlink_to("../blob")
    (landing / "f.csv.tmp").symlink_to("../blob")
    source = FileSource("landing", schema=SCHEMA, follow_links=True, glob="*.csv")
    found, snapshot = read(source, context)
    assert found == ["../blob", "../day1/deep/y.csv", "../day1/x.csv", ".store/1.csv", "own.csv"]
    assert read(source, context, 2, snapshot)[0] == []
    put(home, "day2/x.csv")
    for name, target in (("a", "../day2"), ("b", "../day1")):
        (landing / name).unlink()
        (landing / name).symlink_to(target)
    again = FileSource("landing", schema=SCHEMA, follow_links=True, glob="*.csv")
    assert read(again, context, 3, snapshot)[0] == ["../day2/x.csv"]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_what_links_lead_to_is_read_by_spark(format: Any, home: Path, landing: Path, context: Any, spark: Any) -> None:
    """Also where the source's directory itself is reached through a link."""
    (home / "deep" / "er").mkdir(parents=True)
    landing.rename(home / "deep" / "er" / "landing")
    landing.symlink_to("deep/er/landing")
    if format == "csv":
        put(home, "deep/x.csv")
    else:
        pq.write_table(pa.table({"k": ["a"], "v": pa.array([1], pa.int32())}), home / "deep" / "x.parquet")
    (landing / f"x.{format}").symlink_to(home / "deep" / f"x.{format}")
    source = FileSource("landing", format, schema=SCHEMA, follow_links=True)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    assert [tuple(row) for row in source.read(spark, [segment]).collect()] == [("a", 1)]


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("swapped", ["file", "directory"])
def test_a_link_that_takes_a_file_s_place_after_the_listing_is_not_read(
    swapped: str, follow_links: bool, home: Path, landing: Path, context: Any
) -> None:
    mtime = put(landing, "d/a.csv", mtime=5).stat().st_mtime_ns
    put(home, "elsewhere/a.csv", "k,v\nz,1\n", mtime=mtime)
    source = FileSource("landing", schema=SCHEMA, follow_links=follow_links)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    if swapped == "file":
        (landing / "d/a.csv").unlink()
        (landing / "d/a.csv").symlink_to(home / "elsewhere" / "a.csv")
    else:
        (landing / "d").rename(home / "before")
        (landing / "d").symlink_to(home / "elsewhere")
    with pytest.raises(SourceChangedError, match=r"landing/d/a.csv was a file of its own .* reached through a link"):
        source.read(None, [segment])


def test_a_link_that_takes_a_file_s_place_before_a_task_opens_it_is_not_read(
    home: Path, landing: Path, context: Any, spark: Any
) -> None:
    put(home, "elsewhere/a.csv", "k,v\nhunter2,1\n")
    put(landing, "a.csv")
    source = FileSource("landing", schema=SCHEMA)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    frame = source.read(spark, [segment])
    (landing / "a.csv").unlink()
    (landing / "a.csv").symlink_to(home / "elsewhere" / "a.csv")
    with pytest.raises(Exception) as raised:  # noqa: PT011
        frame.collect()
    explained = source.explain(raised.value, [segment])
    assert isinstance(explained, SourceChangedError)
    assert "is reached through a link now" in str(explained)


def test_nor_before_it_is_read_without_spark(home: Path, landing: Path, context: Any, spark: Any) -> None:
    for directory in (home / "elsewhere", landing):
        directory.mkdir(exist_ok=True)
        pq.write_table(pa.table({"k": [directory.name], "v": pa.array([1], pa.int32())}), directory / "a.parquet")
    source = FileSource("landing", "parquet", schema=SCHEMA)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    reader = source.arrow_reader([segment])
    assert reader is not None
    (landing / "a.parquet").unlink()
    (landing / "a.parquet").symlink_to(home / "elsewhere" / "a.parquet")
    with pytest.raises(LeftToSparkError, match="is reached through a link"):
        list(reader.read(pa.schema({"k": pa.string(), "v": pa.int32()})))
    with pytest.raises(SourceChangedError):
        source.arrow_reader([segment])


def test_a_file_behind_a_link_is_called_by_any_of_its_paths(home: Path, landing: Path) -> None:
    put(home, "elsewhere/a.csv")
    source = FileSource("landing", schema=SCHEMA, follow_links=True)
    given = ("../elsewhere/a.csv", str(home / "elsewhere" / "a.csv"))
    assert [source.name_of(name) for name in given] == ["../elsewhere/a.csv"] * 2
    assert source.name_of(str(landing / "d" / "b.csv")) == source.name_of("landing/d/b.csv") == "d/b.csv"
