"""What a `FileSource` finds, in which order, and what its position remembers. No Spark."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landed_files import put
from records import completed

from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import LaggingSource, Segment, SourceContext
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import HandleKind, OperatorPlan, Pending, Snapshot, SubtaskId
from tidegate.protocol.steps.restored_snapshots import restore_snapshots
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource
from tidegate.sources.listing import split_of
from tidegate.sources.names import NEVER_DATA, is_finished
from tidegate.state.storage import ArrowCheckpointStorage

SCHEMA = "k STRING, v INT"


def paths(segment: Segment | None) -> list[str]:
    return [] if segment is None else [file[0] for file in segment.reference["files"]]


def test_files_are_read_once_oldest_first_then_by_path(landing: Path, context: Any) -> None:
    put(landing, "b.csv", mtime=2)
    put(landing, "deep/er/c.csv", mtime=1)
    put(landing, "a.csv", mtime=2)
    source = FileSource("landing", schema=SCHEMA)
    segment, first = source.poll(0, None, context(1))
    assert paths(segment) == ["deep/er/c.csv", "a.csv", "b.csv"]
    assert segment is not None
    assert segment.bytes == 3 * len("k,v\na,1\n")
    assert first.position == {"splits": 1, "files": 3}
    assert source.poll(0, first, context(2)) == (None, first)


def test_a_file_that_arrives_late_with_an_old_time_is_read(landing: Path, context: Any) -> None:
    source = FileSource("landing", schema=SCHEMA)
    put(landing, "new.csv", mtime=10**18)
    _, first = source.poll(0, None, context(1))
    put(landing, "old.csv", mtime=5)
    assert paths(source.poll(0, first, context(2))[0]) == ["old.csv"]


def test_what_a_poll_has_left_is_known_by_split(landing: Path, context: Any) -> None:
    source = FileSource("landing", schema=SCHEMA, splits=2, max_files_per_checkpoint=2)
    assert source.pending(0) is None
    for number in range(9):
        put(landing, f"{number}.csv")
    sizes = [sum(split_of(f"{number}.csv", 2) == split for number in range(9)) for split in (0, 1)]
    for split in (0, 1):
        source.poll(split, None, context(1, split))
        left = sizes[split] - 1
        assert source.pending(split) == Pending(left, "files", left * len("k,v\na,1\n"))
    assert isinstance(source, LaggingSource)


def test_nothing_new_writes_nothing(landing: Path, context: Any, storage: ArrowCheckpointStorage) -> None:
    source = FileSource("landing", schema=SCHEMA)
    segment, empty = source.poll(0, None, context(1))
    assert segment is None
    assert empty == Snapshot((), {"splits": 1, "files": 0})
    put(landing, "a.csv")
    _, one = source.poll(0, empty, context(2))
    before = storage.list("p")
    _, same = source.poll(0, one, context(3))
    assert same == one
    assert storage.list("p") == before == ["p/chk-2/in/0-1-x.parquet"]


def test_the_position_is_a_manifest_that_anyone_can_check(landing: Path, context: Any, home: Path) -> None:
    import hashlib

    import pyarrow.parquet as pq

    file = put(landing, "a.csv")
    _, snapshot = FileSource("landing", schema=SCHEMA).poll(0, None, context(7))
    (handle,) = snapshot.handles
    written = home / "checkpoints" / handle.path
    assert (handle.kind, handle.rows, handle.created_by) == (HandleKind.POSITION, 1, 7)
    assert handle.bytes == written.stat().st_size
    assert handle.checksum == hashlib.sha256(written.read_bytes()).hexdigest()
    digest = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    row = {"path": "a.csv", "size": 8, "mtime_ns": file.stat().st_mtime_ns, "checkpoint": 7, "checksum": digest}
    row["touched"] = False
    assert pq.read_table(written).to_pylist() == [row]


UNREAD = [".a.csv", "_a.csv", "a.csv.tmp", "a.part", "a.csv.inprogress", "A.TMP", ".d/a.csv", "x/_t/a.csv", "_a=b/a"]
UNREAD += ["1.csv.filepart", "1.csv.crdownload", "1.csv~", "#1.csv#", "~$1.csv", "1.csv.md5", "1.csv.done", "Thumbs.db"]
UNREAD += [".1.csv.Xy12zQ", "1.csv.partial", ".part-0-0.inprogress.1b2c", "1.csv.sha256", "1.csv._COPYING_", "1.SWP"]


@pytest.mark.parametrize("name", UNREAD)
def test_half_written_files_are_left_alone(name: str, landing: Path, context: Any) -> None:
    put(landing, name)
    assert FileSource("landing", schema=SCHEMA).poll(0, None, context(1))[0] is None
    assert not is_finished(name)


@pytest.mark.parametrize("name", ["a.csv", "done", "part", "#1.csv", "a~b.csv", "tmp.csv", "x.tmp/a.csv", "20260101"])
def test_other_names_are_data(name: str, landing: Path, context: Any) -> None:
    put(landing, name)
    assert paths(FileSource("landing", schema=SCHEMA).poll(0, None, context(1))[0]) == [name]


def test_the_docs_have_the_table_of_names_that_are_never_data() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/file-source.md").read_text()
    rows = [f"| {' '.join(f'`{name}`' for name in names.patterns)} | {names.written_by} |" for names in NEVER_DATA]
    assert "\n".join(["| never read | written by |", "|---|---|", *rows]) in page


def test_a_half_written_file_is_read_when_it_gets_its_name(landing: Path, context: Any) -> None:
    put(landing, ".a.csv.tmp")
    source = FileSource("landing", schema=SCHEMA)
    _, first = source.poll(0, None, context(1))
    (landing / ".a.csv.tmp").rename(landing / "a.csv")
    assert paths(source.poll(0, first, context(2))[0]) == ["a.csv"]


def test_a_source_in_a_hidden_directory_is_read(home: Path, context: Any) -> None:
    put(home, ".data/in/a.csv")
    assert paths(FileSource(".data/in", schema=SCHEMA).poll(0, None, context(1))[0]) == ["a.csv"]


def test_the_limit_bounds_a_checkpoint_and_loses_nothing(landing: Path, context: Any) -> None:
    for number in range(5):
        put(landing, f"{number}.csv", mtime=number + 1)
    source = FileSource("landing", schema=SCHEMA, max_files_per_checkpoint=2)
    snapshot, batches = None, []
    for checkpoint_id in range(1, 5):
        segment, snapshot = source.poll(0, snapshot, context(checkpoint_id))
        batches.append(paths(segment))
    assert batches == [["0.csv", "1.csv"], ["2.csv", "3.csv"], ["4.csv"], []]


def test_a_split_is_behind_while_its_polls_take_all_they_may(landing: Path, context: Any) -> None:
    for number in range(5):
        put(landing, f"{number}.csv", mtime=number + 1)
    vertex = SourceVertex("in", FileSource("landing", schema=SCHEMA, max_files_per_checkpoint=2))
    snapshot, behind = None, []
    for checkpoint_id in range(1, 5):
        segment, snapshot = vertex.source.poll(0, snapshot, context(checkpoint_id))
        behind.append(vertex.is_behind(0, segment))
    assert behind == [True, True, False, False]
    unlimited = SourceVertex("in", FileSource("landing", schema=SCHEMA))
    assert not unlimited.is_behind(0, unlimited.source.poll(0, None, context(9))[0])


def test_a_poll_takes_no_more_files_than_give_the_bytes_it_is_asked_for_and_at_least_one(
    landing: Path, context: Any
) -> None:
    """A split whose rest is polled soon is behind, and has not finished although its end marker is there."""
    for number in range(5):
        put(landing, f"{number}.csv", mtime=number + 1)
    (landing / "_SUCCESS").touch()
    size = (landing / "0.csv").stat().st_size
    vertex = SourceVertex("in", FileSource("landing", schema=SCHEMA, end_marker="_SUCCESS"))
    snapshot, polls = None, []
    for checkpoint_id, max_bytes in enumerate((size + 1, 0, 2 * size, None), 1):
        asked = replace(context(checkpoint_id), max_bytes=max_bytes)
        segment, snapshot = vertex.source.poll(0, snapshot, asked)
        polls.append((paths(segment), vertex.is_behind(0, segment), snapshot.finished))
    assert polls == [
        (["0.csv", "1.csv"], True, False),
        (["2.csv"], True, False),
        (["3.csv", "4.csv"], False, True),
        ([], False, True),
    ]


def test_the_limit_is_shared_between_splits() -> None:
    source = FileSource("landing", schema=SCHEMA, splits=3, max_files_per_checkpoint=5)
    assert [source._limit(split) for split in range(3)] == [2, 2, 1]


def test_splits_divide_the_files_by_their_paths_alone(landing: Path, context: Any) -> None:
    names = {f"{number}.csv" for number in range(40)}
    for name in names:
        put(landing, name)
    source = FileSource("landing", schema=SCHEMA, splits=3)
    found = [paths(source.poll(split, None, context(1, split))[0]) for split in range(3)]
    assert all(found)
    assert sorted(name for part in found for name in part) == sorted(names)
    # Recorded figures: another function would read every file of an existing pipeline again.
    assert [split_of(name, 3) for name in ("a.csv", "b.csv", "d/c.csv", "ü.csv", "1.csv")] == [0, 2, 1, 2, 2]


def test_all_splits_of_a_checkpoint_share_one_listing(
    landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.sources.directory import Directory

    listings: list[int] = []
    plain = Directory.files
    monkeypatch.setattr(Directory, "files", lambda *asked: listings.append(1) or plain(*asked))
    put(landing, "a.csv")
    source = FileSource("landing", schema=SCHEMA, splits=2)
    taken = [source.poll(split, None, context(1, split))[1] for split in range(2)]
    assert len(listings) == 1
    put(landing, "b.csv")
    again = [source.poll(split, taken[split], context(1, split, attempt=2))[0] for split in range(2)]
    assert len(listings) == 2
    assert [paths(segment) for segment in again if segment] == [["b.csv"]]


def test_every_file_is_read_once_however_the_number_of_splits_changes(landing: Path, context: Any) -> None:
    """With what each split is given by `restore_snapshots` after that."""
    known: dict[SubtaskId, Snapshot] = {}
    read: list[str] = []
    names: list[str] = []
    latest, plan = None, ()
    for number, splits in enumerate((1, 3, 3, 2, 7, 1), start=1):
        for name in (f"{number}-{letter}.csv" for letter in "abcde"):
            put(landing, name)
            names.append(name)
        before, plan = latest, (OperatorPlan("rows", splits, 16),)
        restored = restore_snapshots(before, known, plan, (), False)
        source = FileSource("landing", schema=SCHEMA, splits=splits)
        known = {}
        for split in range(splits):
            subtask = SubtaskId("rows", split)
            segment, known[subtask] = source.poll(split, restored.get(subtask), context(number, split))
            read += paths(segment) if segment else []
        assert sorted(read) == sorted(names)
        assert sum(snapshot.position["files"] for snapshot in known.values() if snapshot.position) == len(names)
        latest = completed(number, operators=plan)
    listed = [handle.path for snapshot in known.values() for handle in snapshot.handles]
    assert len(listed) == len(set(listed))


def test_a_url_is_read_like_the_path(landing: Path, context: Any) -> None:
    put(landing, "with space.csv")
    source = FileSource(f"file://{landing}/", schema=SCHEMA)
    assert source.location == str(landing)
    assert paths(source.poll(0, None, context(1))[0]) == ["with space.csv"]


arrivals = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["", "d/", "d/e/"]), st.integers(0, 10**6), st.integers(1, 50)),
        max_size=6,
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(
    arrivals=arrivals, splits=st.integers(1, 3), extra=st.none() | st.integers(0, 3), lost=st.sets(st.integers(1, 30))
)
def test_every_file_is_read_exactly_once(
    arrivals: list[list[tuple[str, int, int]]], splits: int, extra: int | None, lost: set[int]
) -> None:
    """Arrivals in any order of modification time, any limit, checkpoints that fail after the poll and are repeated."""
    with tempfile.TemporaryDirectory() as directory:
        landing = Path(directory, "in")
        landing.mkdir()
        storage = ArrowCheckpointStorage(f"{directory}/chk")
        limit = None if extra is None else splits + extra
        source = FileSource(str(landing), schema=SCHEMA, splits=splits, max_files_per_checkpoint=limit)
        position: dict[int, Snapshot | None] = dict.fromkeys(range(splits))
        read: list[str] = []
        arrived: set[str] = set()
        pending, checkpoint_id = list(arrivals), 0
        while pending or set(read) != arrived:
            checkpoint_id += 1
            assert checkpoint_id < 200
            for folder, number, mtime in pending.pop(0) if pending else []:
                name = f"{folder}{number}.csv"
                if name not in arrived:
                    put(landing, name, mtime=mtime)
                    arrived.add(name)
            batch, taken = [], {}
            for split in range(splits):
                where = SourceContext(storage, checkpoint_id, f"p/chk-{checkpoint_id}/in/{split}-1-x")
                segment, taken[split] = source.poll(split, position[split], where)
                assert source.replay(split, position[split], taken[split], storage) == segment
                assert len(taken[split].handles) <= 10
                batch += paths(segment)
            assert limit is None or len(batch) <= limit
            if checkpoint_id not in lost:
                position, read = dict(taken), read + batch
        assert sorted(read) == sorted(arrived)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "xml"}, "the format is 'xml', but must be csv, json or parquet"),
    ({"schema": " "}, "it needs a schema in Spark DDL"),
    ({"schema": "k STRING, n INT, "}, "it needs a schema in Spark DDL"),
    ({"splits": 0}, "splits is 0, but there must be at least one"),
    ({"splits": 3, "max_files_per_checkpoint": 2}, "max_files_per_checkpoint is 2, but each of 3 splits needs"),
    ({"malformed": "drop"}, "malformed is 'drop', but must be"),
    ({"malformed": "quarantine"}, "belong together"),
    ({"quarantine": ParquetSink("q")}, "belong together"),
    ({"malformed": "quarantine", "quarantine": ParquetSink("q"), "format": "parquet"}, "have no malformed rows"),
    ({"malformed": "quarantine", "quarantine": ParquetSink("q", "latest")}, "the quarantine must append"),
    ({"options": {"mode": "DROPMALFORMED"}}, "the option 'mode' cannot be set"),
    ({"options": {"recursiveFileLookup": "true"}}, "the option 'recursiveFileLookup' cannot be set"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_a_wrong_definition_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"FileSource.'landing'.*" + message.replace("(", r"\(")):
        FileSource("landing", **{"schema": SCHEMA, **arguments})


def test_describe_has_what_a_reader_of_the_metadata_needs(home: Path) -> None:
    source = FileSource("a/../landing/", "json", schema=SCHEMA, splits=2)
    assert source.describe() == {
        "type": "FileSource",
        "path": str(home / "landing"),
        "format": "json",
        "schema": SCHEMA,
        "splits": 2,
        "max_files_per_checkpoint": None,
        "malformed": "fail",
        "encoding": "utf-8",
        "options": {},
        "end_marker": None,
        "glob": "*",
        "exclude": [],
        "recursive": True,
        "partitions": None,
    }
