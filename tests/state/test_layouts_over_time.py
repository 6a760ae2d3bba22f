"""One state under several definitions, one after the other: read, merged, exported, with deletions."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from state_layouts import K, V, kept, read, rows
from state_operator import Operator, Workshop

from tidegate.pipeline.aggregates import avg, count, max_, sum_
from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.recovery.canonical import Rewrite
from tidegate.protocol.schema.state_schema import compare_schemas
from tidegate.state.exporting import rewrite_state
from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles, open_state
from tidegate.state.subtask import scan


def evolve(operator: Operator, after: StateLayout, **former: str | None) -> None:
    """As the driver does it: by the newest run there is."""
    change = compare_schemas(operator.layout.schema, after.schema, former)
    assert change.problems == ()
    operator.layout = after.succeeding(change.schema)


@pytest.mark.usefixtures("reading")
def test_three_definitions_one_after_the_other_in_one_state(workshop: Workshop) -> None:
    operator = Operator(workshop, rows(K, ("a", pa.int32()), ("b", pa.string())))
    schema = pa.schema([K, ("a", pa.int32()), ("b", pa.string())])
    operator.upsert(pa.Table.from_pylist([{"k": k, "a": k, "b": "x"} for k in (1, 2, 3)], schema=schema))
    evolve(operator, rows(K, ("n", pa.int64()), ("c", pa.int64()), c=9), n="a")
    second = pa.schema([K, ("n", pa.int64()), ("c", pa.int64())])
    operator.upsert(pa.Table.from_pylist([{"k": 2, "n": 20, "c": 1}], schema=second))
    assert read(operator.scan()) == [{"k": 1, "n": 1, "c": 9}, {"k": 2, "n": 20, "c": 1}, {"k": 3, "n": 3, "c": 9}]
    # b comes back, and has not what it had; the rename and the default are no longer said, and still hold
    evolve(operator, rows(K, ("n", pa.int64()), ("c", pa.int64()), ("b", pa.string())))
    third = second.append(pa.field("b", pa.string()))
    operator.upsert(pa.Table.from_pylist([{"k": 3, "n": 30, "c": 2, "b": "y"}], schema=third), parallelism=3)
    expected = [
        {"k": 1, "n": 1, "c": 9, "b": None},
        {"k": 2, "n": 20, "c": 1, "b": None},
        {"k": 3, "n": 30, "c": 2, "b": "y"},
    ]
    assert read(operator.scan()) == expected
    files = StateFiles(str(workshop.storage), str(workshop.cache), operator.state())
    assert read(pa.Table.from_batches(list(open_state(files).batches()))) == expected
    assert read(pa.Table.from_batches(list(open_state(files, key=1).batches()))) == expected[:1]
    operator.merge([0, 3])
    operator.finish(operator.begin(2), {})
    assert read(operator.scan()) == expected


def test_what_arrives_is_merged_with_what_was_kept_in_other_columns(workshop: Workshop) -> None:
    narrow = pa.schema([K, ("v", pa.int32())])
    operator = Operator(workshop, kept(narrow, total=sum_("v"), most=max_("v")))
    operator.aggregate(pa.Table.from_pylist([{"k": 1, "v": 5}, {"k": 2, "v": 3}], schema=narrow))
    evolve(
        operator, kept(pa.schema([K, V]), n=count(), total=sum_("v"), mean=avg("v"), highest=max_("v")), highest="most"
    )
    operator.aggregate(pa.Table.from_pylist([{"k": 1, "v": 2**40}, {"k": 1, "v": 2}], schema=pa.schema([K, V])))
    assert read(operator.scan()) == [
        {"k": 1, "n": 2, "total": 2**40 + 7, "mean": (2**40 + 2) / 2, "highest": 2**40},
        {"k": 2, "n": 0, "total": 3, "mean": None, "highest": 3},
    ]


def test_a_deleted_key_stays_deleted(workshop: Workshop) -> None:
    layout = rows(K, V)
    operator = Operator(workshop, layout)
    schema = pa.schema([*layout.stored, ("_delete", pa.bool_())])
    for gone in (False, True):
        operator.upsert(
            pa.Table.from_pylist([{"k": k, "v": 1, "_delete": gone and k == 1} for k in (1, 2)], schema=schema)
        )
    evolve(operator, rows(K, V, ("w", pa.int64()), w=0))
    assert read(operator.scan()) == [{"k": 2, "v": 1, "w": 0}]


def test_a_change_of_the_definition_is_no_change_of_a_row(workshop: Workshop) -> None:
    operator = Operator(workshop, rows(K, ("v", pa.int32())))
    operator.upsert(pa.Table.from_pylist([{"k": k, "v": k} for k in (1, 2)], schema=operator.layout.stored))
    before = operator.state()
    evolve(operator, rows(K, ("n", pa.int64()), ("w", pa.string()), w="-"), n="v")
    operator.upsert(pa.Table.from_pylist([{"k": 2, "n": 5, "w": "new"}], schema=operator.layout.stored))
    operator.merge([0, 2])
    operator.finish(operator.begin(1), {})
    files = StateFiles(str(workshop.storage), str(workshop.cache), operator.state(), before)
    assert read(pa.Table.from_batches(list(open_state(files).batches()))) == [
        {"k": 2, "n": 5, "w": "new", "_change": "upsert"}
    ]
    backwards = StateFiles(str(workshop.storage), str(workshop.cache), before, operator.state())
    assert read(pa.Table.from_batches(list(open_state(backwards).batches()))) == [
        {"k": 2, "n": 2, "w": "-", "_change": "upsert"}
    ]


def test_an_export_has_the_newest_columns(workshop: Workshop, tmp_path: Path) -> None:
    operator = Operator(workshop, rows(K, ("v", pa.int32())))
    operator.upsert(pa.Table.from_pylist([{"k": k, "v": k} for k in (1, 2, 3)], schema=operator.layout.stored))
    evolve(operator, rows(K, ("n", pa.int64()), ("w", pa.string()), w="-"), n="v")
    operator.upsert(pa.Table.from_pylist([{"k": 2, "n": 2**40, "w": "new"}], schema=operator.layout.stored))
    expected = read(operator.scan())
    (subtask,), location = operator.snapshots, str(tmp_path / "saved")
    spec = operator.spec(subtask, operator.snapshots[subtask])
    rewrite = Rewrite(subtask, spec.key_groups, spec.max_parallelism, spec.runs, "state/op/0")
    handle = rewrite_state(rewrite, spec.pipeline, spec.checkpoint_id, spec.storage_url, location, spec.cache_dir)
    there = replace(spec, storage_url=location, runs=(handle,))
    assert read(pa.Table.from_batches(scan(there), operator.layout.rows)) == expected
    assert handle.details["layout_version"] == 1


def test_a_run_of_newer_columns_is_not_read_in_old_ones(workshop: Workshop) -> None:
    operator = Operator(workshop, rows(K, V))
    operator.upsert(pa.Table.from_pylist([{"k": 1, "v": 1}], schema=operator.layout.stored))
    evolve(operator, rows(K, V, ("w", pa.string())))
    operator.upsert(pa.Table.from_pylist([{"k": 2, "v": 1, "w": "a"}], schema=operator.layout.stored))
    operator.layout = rows(K, V)
    with pytest.raises(StateSchemaError, match="column 'w' is stored as string, now absent"):
        operator.scan()


def test_a_run_says_what_has_changed_since_the_state_was_begun(workshop: Workshop) -> None:
    operator = Operator(workshop, rows(K, V, v=7))
    operator.upsert(pa.Table.from_pylist([{"k": 1, "v": 1}], schema=operator.layout.stored))
    evolve(operator, rows(K, V, ("w", pa.string())))
    operator.upsert(pa.Table.from_pylist([{"k": 1, "v": 1, "w": "a"}], schema=operator.layout.stored))
    begun, changed = (
        json.loads(pq.read_schema(workshop.file(run)).metadata[b"tidegate.state"]) for run in operator.state().runs
    )
    assert (begun["format"], set(begun["layout"])) == (1, {"keys", "values", "aggregates"})
    assert (changed["format"], changed["layout"]["version"]) == (1, 1)
    assert changed["layout"]["ids"] == {"w": "w#1"}
