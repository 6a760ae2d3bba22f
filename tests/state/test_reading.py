"""What people read of keyed state, beside a dictionary: rows, a key's row, and the changes between two checkpoints."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from state_epochs import (
    AGGREGATES,
    INPUT,
    MASKS,
    ROWS,
    as_dict,
    epochs,
    input_rows,
    key_of,
    state_rows,
    table_of,
)
from state_operator import Operator, with_hash
from state_readings import ROUTES, changes_of, check_history, check_script, files_of, read, routes

from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError, StateSchemaError
from tidegate.state import keys, mapped_copies
from tidegate.state.keys import key_of_text
from tidegate.state.layout import StateLayout
from tidegate.state.showing import json_rows
from tidegate.state.storage import open_storage

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def share_hashes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`share_hashes(mask)`: a reader's keys get the hashes that `with_hash` gives with this mask."""

    def share(mask: int) -> None:
        def masked(columns: Any, rows: int) -> pa.Array:
            names = [str(at) for at in range(len(columns))]
            return with_hash(pa.table(dict(zip(names, columns, strict=True))), names, mask).column("_hash").chunk(0)

        monkeypatch.setattr(keys, "spark_hash", masked)

    return share


@pytest.mark.sampled
@SETTINGS
@pytest.mark.usefixtures("reading")
@given(script=epochs(state_rows), mask=MASKS)
def test_rows_keys_and_changes_are_those_of_a_dictionary(script, mask, new_workshop, share_hashes) -> None:
    share_hashes(mask)
    check_script(script, Operator(new_workshop(), ROWS, mask))


@pytest.mark.sampled
@SETTINGS
@given(script=epochs(input_rows), mask=MASKS)
def test_aggregates_are_read_as_the_tables_have_them(script, mask, new_workshop, share_hashes) -> None:
    share_hashes(mask)
    operator = Operator(new_workshop(), AGGREGATES, mask)
    history, asked = [], {(None, None)}
    for epoch in script:
        operator.aggregate(table_of(epoch["rows"], INPUT), epoch["parallelism"])
        if operator.state().runs:
            history.append((operator.state(), as_dict(operator.scan())))
        asked |= {key_of(row) for row in epoch["rows"][:2]}
        if epoch["merge"]:
            operator.merge(epoch["merge"], epoch["merged_subtask"])
    if history:
        assert read(files_of(operator)).schema.names == AGGREGATES.rows.names
        check_history(operator, history, asked)


def test_two_keys_with_one_hash_are_told_apart(workshop) -> None:
    """A null leaves the hash as it was, so these two need no mask."""
    operator = Operator(workshop, ROUTES)
    operator.upsert(routes(("JFK", None, 1, False), (None, "JFK", 2, False)))
    hashes = with_hash(routes(("JFK", None, 1, False), (None, "JFK", 2, False)), ["a", "b"]).column("_hash")
    assert hashes[0] == hashes[1]
    before = operator.state()
    operator.upsert(routes((None, "JFK", None, True)), parallelism=3)
    assert read(files_of(operator, before), ["JFK", None])["n"].to_pylist() == [1]
    assert read(files_of(operator, before), {"b": "JFK", "a": None})["n"].to_pylist() == [2]
    assert read(files_of(operator), [None, "JFK"]).num_rows == 0
    assert changes_of(read(files_of(operator, since=before))) == ({}, {(None, "JFK")})
    assert read(files_of(operator, since=before), ["JFK", None]).num_rows == 0


def test_what_was_not_there_before_is_all_new(workshop) -> None:
    operator = Operator(workshop, ROUTES)
    operator.upsert(routes(("a", "b", 1, False)), parallelism=2)
    nothing = replace(operator.state(), checkpoint_id=0, subtasks=())
    assert changes_of(read(files_of(operator, since=nothing))) == ({("a", "b"): (1,)}, set())


def test_a_value_that_comes_back_is_no_change(workshop) -> None:
    layout = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("x", pa.float64())]), ["k"])
    operator = Operator(workshop, layout)
    operator.upsert(pa.table({"k": [1, 2, 3], "x": [math.nan, 0.0, 1.0]}))
    before = operator.state()
    operator.upsert(pa.table({"k": [1, 2, 3], "x": [5.0, 5.0, 5.0]}))
    operator.upsert(pa.table({"k": [1, 2, 3], "x": [math.nan, -0.0, 5.0]}))
    changed = read(files_of(operator, since=before))
    assert changed.to_pylist() == [{"k": 3, "x": 5.0, "_change": "upsert"}]


def large(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """Runs of several row groups that are too large to be read in full for one key."""
    monkeypatch.setattr(mapped_copies, "IN_PLACE_FILE", 0)
    monkeypatch.setattr("tidegate.state.runs._GROUP_ROWS", 1000)
    layout = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("text", pa.string())]), ["k"])
    operator = Operator(workshop, layout)
    numbers = list(range(20_000))
    operator.upsert(pa.table({"k": numbers, "text": [f"row {n}" for n in numbers]}), parallelism=2)
    return operator


def test_one_key_of_a_large_run_costs_a_row_group(workshop, monkeypatch) -> None:
    operator = large(workshop, monkeypatch)
    taken = []
    monkeypatch.setattr("tidegate.state.opening._near", counted(taken))
    for key in (0, 19_999, "7"):
        found = read(files_of(operator), key)
        assert found.to_pylist() == [{"k": int(key), "text": f"row {key}"}]
    assert read(files_of(operator), 20_000).num_rows == 0
    assert sum(taken) == 3  # of about ten row groups each time
    assert not workshop.copies.exists()  # nothing is downloaded for it


def counted(taken: list[int]) -> Any:
    from tidegate.state.opening import _near

    def near(*arguments: Any) -> Any:
        parts = _near(*arguments)
        taken.append(len(parts))
        return parts

    return near


def test_a_file_that_was_cut_off_or_is_gone_is_an_error_that_names_it(workshop, monkeypatch) -> None:
    operator = large(workshop, monkeypatch)
    files = files_of(operator)
    for run in files.state.runs:
        path = workshop.file(run)
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateIntegrityError, match=r"\.parquet, written by checkpoint 1, is damaged"):
        read(files, 5)
    for run in files.state.runs:
        workshop.file(run).unlink()
    with pytest.raises(StateIntegrityError, match="is missing from checkpoint storage"):
        read(files)


def test_what_is_no_run_or_of_another_format_is_refused(workshop) -> None:
    operator = Operator(workshop, ROUTES)
    operator.upsert(routes(("a", "b", 1, False)))
    (run,) = operator.state().runs
    schema = pa.parquet.read_schema(workshop.file(run))
    newer = {b"tidegate.state": schema.metadata[b"tidegate.state"].replace(b'"format": 1', b'"format": 9')}
    for metadata, said in ((None, "is not a run of keyed state"), (newer, "its format is 9")):
        pa.parquet.write_table(schema.with_metadata(metadata).empty_table(), workshop.file(run))
        with pytest.raises(StateSchemaError, match=said):
            read(files_of(operator))


def test_an_operator_that_was_defined_anew_cannot_be_compared(workshop) -> None:
    operator = Operator(workshop, ROUTES)
    operator.upsert(routes(("a", "b", 1, False)))
    other = Operator(workshop, StateLayout.of_rows(pa.schema([("a", pa.string()), ("n", pa.int64())]), ["a"]))
    other.upsert(pa.table({"a": ["a"], "n": [1]}))
    with pytest.raises(StateSchemaError, match=r"cannot be compared .* the key is stored as \(a string, b string\)"):
        read(files_of(other, since=operator.state()))


TYPES = [
    (pa.bool_(), True, "true"),
    (pa.int8(), -5, "-5"),
    (pa.int64(), 2**62, str(2**62)),
    (pa.float32(), 1.5, "1.5"),
    (pa.float64(), -0.0, "0"),
    (pa.decimal128(9, 2), Decimal("1.50"), "1.5"),
    (pa.decimal128(38, 10), Decimal("-1.5"), "-1.5"),
    (pa.string(), "[1", "[1"),
    (pa.binary(), b"ab", "ab"),
    (pa.date32(), date(2013, 1, 31), "2013-01-31"),
    (pa.timestamp("us", "UTC"), datetime(2013, 1, 1, 12, tzinfo=UTC), "2013-01-01 12:00:00"),
    (pa.timestamp("us", "UTC"), datetime(2013, 1, 1, 12, tzinfo=UTC), "2013-01-01T14:00:00+02:00"),
    (pa.timestamp("us"), datetime(2013, 1, 1, 12), "2013-01-01 12:00:00"),
    (pa.time64("ns"), time(12, 30), "12:30:00"),
    (pa.duration("us"), timedelta(days=1), None),
]


@pytest.mark.parametrize(("kind", "value", "text"), TYPES, ids=[f"{kind} {text}" for kind, _, text in TYPES])
def test_a_key_of_every_type_is_found_by_value_and_by_text(kind, value, text, workshop) -> None:
    layout = StateLayout.of_rows(pa.schema([("k", kind), ("n", pa.int64())]), ["k"])
    operator = Operator(workshop, layout)
    operator.upsert(pa.table({"k": pa.array([value, None], kind), "n": [1, 2]}))
    asked = [value, [value], {"k": value}] if text is None else [value, [value], {"k": value}, key_of_text(text)]
    for key in asked:
        assert read(files_of(operator), key)["n"].to_pylist() == [1]
    for null in ([None], {"k": None}, key_of_text("[null]")):
        assert read(files_of(operator), null)["n"].to_pylist() == [2]


def test_a_key_as_text() -> None:
    assert key_of_text("AA") == "AA"
    assert key_of_text('["JFK", null]') == ["JFK", None]
    assert key_of_text(' {"a": 1}') == {"a": 1}
    assert key_of_text("[not JSON") == "[not JSON"
    assert key_of_text('["[1]"]') == ["[1]"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("a", "1 value was given, and its key is (k bigint, d date)"),
        ([1, 2, 3], "3 values were given"),
        ({"k": 1}, "k was given"),
        ({}, "nothing was given"),
        (["x", "2013-01-01"], "'x' cannot be a bigint"),
        ([1.5, "2013-01-01"], "1.5 cannot be a bigint"),
        ([2**70, None], "cannot be a bigint"),
        ([1, "yesterday"], "'yesterday' cannot be a date"),
        ([1, [1]], "[1] cannot be a date"),
        ([1, 5], "5 cannot be a date"),
        ([True, None], "True cannot be a bigint"),
    ],
)
def test_a_key_that_does_not_fit_is_told_what_the_key_is(key, said, workshop) -> None:
    schema = pa.schema([("k", pa.int64()), ("d", pa.date32()), ("n", pa.int64())])
    operator = Operator(workshop, StateLayout.of_rows(schema, ["k", "d"]))
    operator.upsert(table_of([(1, date(2013, 1, 1), 1)], schema))
    with pytest.raises(ConfigurationError) as refused:
        read(files_of(operator), key)
    assert said in str(refused.value)


def test_rows_are_shown_without_loss() -> None:
    columns = {
        "text": pa.array(["ü", None]),
        "real": pa.array([math.nan, -math.inf]),
        "exact": pa.array([Decimal("0.10"), None], pa.decimal128(9, 2)),
        "bytes": pa.array([b"\x00\xff", None]),
        "day": pa.array([0, 5_000_000], pa.int32()).cast(pa.date32()),  # beyond the years of Python
        "at": pa.array([0, None], pa.timestamp("us", "UTC")),
        "clock": pa.array([1, None], pa.time64("ns")),
        "span": pa.array([-(3 * 86_400 * 10**6) - 1, None], pa.duration("us")),
        "flag": pa.array([True, None]),
    }
    first, second = json_rows(pa.record_batch(columns))
    assert first == {
        "text": "ü", "real": "NaN", "exact": "0.10", "bytes": "00ff", "day": "1970-01-01",
        "at": "1970-01-01 00:00:00.000000Z", "clock": "00:00:00.000000001", "span": "-3 00:00:00.000001", "flag": True,
    }  # fmt: skip
    assert (second["real"], second["day"]) == ("-Infinity", "15659-07-15")


def test_a_reader_reads_files_and_nothing_else(workshop, monkeypatch) -> None:
    """No directory is listed, and nothing is written."""
    operator = Operator(workshop, ROUTES)
    operator.upsert(routes(("a", "b", 1, False)))
    written = workshop.written()
    storage = open_storage(str(workshop.storage))
    for name in ("list", "write", "delete", "open_output"):
        monkeypatch.setattr(type(storage), name, None)
    assert read(files_of(operator)).num_rows == 1
    assert workshop.written() == written
