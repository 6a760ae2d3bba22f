"""`IcebergSource`: what is read between two snapshots, whatever else has happened to the table."""

import copy
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from marts import values
from pyiceberg.types import LongType

from tidegate import IcebergSink, IcebergSource
from tidegate.iceberg.catalog import swap
from tidegate.iceberg.draft import Draft
from tidegate.iceberg.names import written_by
from tidegate.iceberg.places import location_now
from tidegate.ports import Snapshot, SourceContext
from tidegate.ports.declared_schemas import ddl_of
from tidegate.postgres_sink.databases import connected
from tidegate.postgres_sink.positions import OwnStatements
from tidegate.protocol.facts.errors import (
    MalformedRowsError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)

V = pa.schema([("v", pa.int64())])


class Reader:
    """Polls as checkpoints do, each time by a new source."""

    def __init__(self, schema="v BIGINT", columns=V, **options):
        self.make = lambda: IcebergSource("db.out", schema=schema, **options)
        self.columns, self.position = columns, None

    def poll(self, source=None):
        """The segment, None if there is none."""
        segment, position = (source or self.make()).poll(0, self.position, SourceContext(None, 1, "x"))
        self.position = Snapshot((), json.loads(json.dumps(position.position)))
        return segment

    def rows(self, segment):
        if segment is None:
            return []
        batches = list(self.make().arrow_reader([segment]).read(self.columns))
        return pa.Table.from_batches(batches, self.columns).to_pylist()

    def values(self):
        return sorted(row["v"] for row in self.rows(self.poll()))


@pytest.fixture
def do(lake):
    """Changes the table as another program does."""

    def change(what):
        catalog = lake.catalog()
        what(catalog.load_table("db.out"))
        catalog.close()

    return change


@pytest.fixture
def bronze(mart):
    return mart(out=IcebergSink("db.out"))


def append(*numbers):
    return lambda table: table.append(pa.table({"v": pa.array(numbers, pa.int64())}))


def test_rows_of_checkpoints_and_of_others_are_read_once(bronze, do):
    silver = Reader()
    assert silver.poll() is None, "there is no table yet"
    bronze.take(out=values(1))
    bronze.take(out=values(2))
    assert silver.values() == [1, 2]
    assert silver.values() == []
    bronze.take(out=values(3))
    do(append(4))
    assert silver.values() == [3, 4]


def test_the_columns_are_the_tables_if_none_are_given(bronze):
    with pytest.raises(PipelineDefinitionError, match="no such table yet, so it needs a schema="):
        ddl_of(IcebergSource("db.out").schema)
    bronze.take(out=pa.table({"v": [1], "at": pa.array([0], pa.timestamp("us", "UTC")), "s": [{"a b": [1.5]}]}))
    assert ddl_of(IcebergSource("db.out").schema) == "`v` BIGINT, `at` TIMESTAMP, `s` STRUCT<`a b`: ARRAY<DOUBLE>>"


@pytest.mark.parametrize("start", ["tag", "snapshot", "time"])
def test_it_begins_after_a_tag_a_snapshot_or_a_time(bronze, lake, start):
    bronze.take(out=values(1))
    bronze.take(out=values(2))
    table = lake.table("db.out")
    snapshot = table.snapshot_by_id(table.refs()["chk-1"].snapshot_id)
    time = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    silver = Reader(start={"tag": "chk-1", "snapshot": snapshot.snapshot_id, "time": time}[start])
    first = silver.poll()
    bronze.take(out=values(3))
    assert silver.rows(first) == [{"v": 2}]
    assert silver.values() == [3]
    assert Reader(start=datetime(2020, 1, 1, tzinfo=UTC)).values() == [1, 2, 3]
    with pytest.raises(SourceUnavailableError, match=r"no tag 'other'.*There are: chk-1"):
        Reader(start="other").poll()


def test_the_same_segment_is_replayed_whatever_was_appended_since(bronze):
    bronze.take(out=values(1))
    silver = Reader()
    segment = silver.poll()
    bronze.take(out=values(2))
    assert silver.make().replay(0, None, silver.position, None) == segment
    assert silver.rows(segment) == [{"v": 1}]


@pytest.mark.parametrize("limits", [{"max_rows": 2}, {"max_bytes": 1}], ids=str)
def test_a_poll_takes_a_part_and_says_what_it_leaves(bronze, limits):
    for number in range(1, 6):
        bronze.take(out=values(number))
    silver, source = Reader(**limits), Reader(**limits).make()
    found = silver.rows(silver.poll(source))
    step = limits.get("max_rows", 1)
    assert (len(found), source.pending(0).pieces, source.is_behind(0, None)) == (step, 5 - step, True)
    bronze.take(out=values(6))  # the whole table is still read as of the first poll, then this
    while segment := silver.poll(source):
        rows = silver.rows(segment)
        assert 0 < len(rows) <= step
        found += rows
    assert sorted(row["v"] for row in found) == [1, 2, 3, 4, 5, 6]
    assert (source.pending(0).pieces, source.is_behind(0, None)) == (0, False)
    for number in range(7, 10):
        bronze.take(out=values(number))
    assert [len(silver.values()) for _ in range(4)] == ([2, 1, 0, 0] if step == 2 else [1, 1, 1, 0])


def test_snapshots_that_remove_rows_fail_or_are_passed_over(bronze, do, lake):
    bronze.take(out=values(1, 2))
    strict, lax = Reader(), Reader(on_overwrite="skip")
    assert strict.values() == lax.values() == [1, 2]
    bronze.take(out=values(3))
    do(lambda table: table.delete("v = 1"))
    id_ = lake.table("db.out").current_snapshot().snapshot_id
    bronze.take(out=values(4))
    assert strict.values() == [3], "what came before is read"
    with pytest.raises(SourceChangedError, match=rf'Snapshot {id_} of table db.out.*on_overwrite="skip"'):
        strict.poll()
    assert lax.values() == [3, 4]


def test_a_compaction_adds_no_rows(bronze):
    silver = Reader()
    bronze.take(out=values(1))
    bronze.take(out=values(2))
    assert silver.values() == [1, 2]
    _rewrite(bronze.sinks["out"])
    bronze.take(out=values(3))
    assert silver.values() == [3]


def _rewrite(sink):
    """A snapshot that says that it has only rewritten files."""
    draft = Draft.of(location_now(sink.name), written_by(99), {})
    files = [copy.deepcopy(entry.data_file) for entry in draft.live()]
    for file in files:
        shutil.copy(file.file_path.removeprefix("file://"), file.file_path.removeprefix("file://") + ".again")
        file._data[1] = f"{file.file_path}.again"
    draft.replace(files)
    location = draft.write()
    metadata = Path(location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"operation":"overwrite"', '"operation":"replace"'))
    assert '"operation":"replace"' in metadata.read_text()
    with connected(None, sink.name.target) as connection:
        assert swap(OwnStatements(connection), sink.name, draft.base, location)


def test_what_expired_is_lost_only_if_it_was_not_read(mart):
    of = mart(out=IcebergSink("db.out"), retained=1)

    def take(number):
        of.take(out=values(number))
        of.coordinator.clean()

    late, early = Reader(), Reader()
    take(1)
    assert late.values() == early.values() == [1]
    for number in range(2, 7):
        take(number)
        assert early.values() == [number], "the snapshot before has expired, and was read"
    with pytest.raises(SourceUnavailableError, match=r"that follow \d+ have expired.*The oldest that is left"):
        late.poll()


def test_a_table_that_was_led_back_is_found_out(bronze):
    silver = Reader()
    bronze.take(out=values(1))
    bronze.take(out=values(2))
    assert silver.values() == [1, 2]
    bronze.restore(1)
    with pytest.raises(SourceChangedError, match="does not go on from snapshot"):
        silver.poll()
    bronze.restore()
    assert silver.values() == []


def test_columns_are_found_by_their_numbers(bronze, do):
    def renamed(table):
        with table.update_schema() as update:
            update.rename_column("v", "amount")

    def swapped(table):
        with table.update_schema() as update:
            update.rename_column("amount", "cents")
            update.add_column("more", LongType())

    columns = pa.schema([("v", pa.int64()), ("more", pa.int64())])
    bronze.take(out=pa.table({"v": pa.array([1], pa.int32()), "other": ["x"]}))
    bronze.take(out=pa.table({"v": pa.array([2], pa.int64())}))
    silver, wide = Reader(), Reader("v BIGINT, more BIGINT", columns)
    with pytest.raises(MalformedRowsError, match="no column 'more'"):
        wide.make().arrow_reader([wide.poll()])
    do(renamed)
    do(lambda table: table.append(pa.table({"amount": pa.array([3], pa.int64()), "other": pa.array(["y"])})))
    do(swapped)
    assert silver.values() == [1, 2, 3]
    wide = Reader("v BIGINT, more BIGINT", columns)
    assert sorted(row["v"] for row in wide.rows(wide.poll())) == [1, 2, 3]


def test_partitions_and_nested_columns(mart):
    of = mart(out=IcebergSink("db.out", partition_by=["v"]))
    kind = pa.list_(pa.struct([("a", pa.int32())]))
    of.take(out=pa.table({"v": pa.array([1, 2], pa.int64()), "items": pa.array([[{"a": 1}], None], kind)}))
    silver = Reader("v BIGINT, items ARRAY<STRUCT<a: INT>>", pa.schema([("v", pa.int64()), ("items", kind)]))
    segment = silver.poll()
    assert len(silver.make().arrow_reader([segment]).ranges) == 2, "a task for each file"
    assert sorted(map(str, silver.rows(segment))) == ["{'v': 1, 'items': [{'a': 1}]}", "{'v': 2, 'items': None}"]


def test_what_came_into_nested_columns_is_null_in_older_files(bronze):
    bronze.take(out=pa.table({"s": [{"a": 1}]}))
    bronze.take(out=pa.table({"s": [{"a": 2, "b": "x"}]}))
    columns = pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
    silver = Reader("s STRUCT<a: BIGINT, b: STRING>", columns)
    assert sorted(map(str, silver.rows(silver.poll()))) == ["{'s': {'a': 1, 'b': None}}", "{'s': {'a': 2, 'b': 'x'}}"]


def test_values_that_do_not_fit_name_the_file(bronze):
    bronze.take(out=values(2**40))
    silver = Reader("v INT", pa.schema([("v", pa.int32())]))
    with pytest.raises(RuntimeError) as error:
        silver.rows(silver.poll())
    said = str(silver.make().explain(error.value, []))
    assert re.search(r"^IcebergFiles, file file:///.*/data/chk-1/.*: column 'v' is int64", said)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"on_overwrite": "ignore"}, "on_overwrite is 'ignore'"),
        ({"start": datetime(2026, 1, 1)}, "without a zone"),
        ({"max_rows": 0}, "max_rows is 0"),
    ],
    ids=str,
)
def test_wrong_options(options, why):
    with pytest.raises(PipelineDefinitionError, match=why):
        IcebergSource("db.out", **options)
    with pytest.raises(PipelineDefinitionError, match=r"IcebergSource.'out'.: write the table as"):
        IcebergSource("out")
