"""A sink of a user's own on `StagedParquet`: where it stages, and what it is given to commit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate import FileSource, ParquetSink, Pipeline, StagedParquet
from tidegate.dataflow.execution_plan import identity_of
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CommitAttempt, PlacedSink, PortableSink, SinkInput, StageContext, StagingSink, StateHandle
from tidegate.protocol.facts.errors import PipelineDefinitionError, SinkError


@dataclass(frozen=True)
class ListSink(StagedParquet):
    table: str
    staged_in: str | None = None
    input: SinkInput = SinkInput.CHANGES

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        raise AssertionError("never called")

    def describe(self) -> dict[str, Any]:
        return {"type": "ListSink", "table": self.table}


def vertices(*names: str, sink: Any, pipeline: str = "shop") -> list[SinkVertex]:
    """The sink as it is when it has joined a pipeline, once for each name."""
    shop = Pipeline(pipeline)
    orders = shop.source("orders", FileSource("landing", schema="v BIGINT"))
    for name in names:
        orders.sink(name, sink)
    return [vertex for vertex in shop.vertices if isinstance(vertex, SinkVertex)]


def stage(sink: Any, *values: int, unique: str = "u", subtask: int = 0) -> list[StateHandle]:
    return sink.writer().stage(pa.table({"v": pa.array(values, pa.int64())}), StageContext(4, subtask, 2, unique))


def test_rows_are_staged_below_the_checkpoint_storage_in_a_directory_of_the_pipelines_sink(home: Path) -> None:
    one, other = (vertex.sink for vertex in vertices("one", "other", sink=ListSink("t")))
    (handle,) = stage(one, 1, 2)
    assert handle.path == "_staging/chk-4/0-2-u.parquet"
    assert (home / ".tidegate/checkpoints/_sinks/shop/one" / handle.path).exists()
    assert (one.staged_paths(4), one.staged_paths(5), other.staged_paths(4)) == ([handle.path], [], [])
    assert (one.staged_checkpoints(), other.staged_checkpoints()) == ([4], [])
    one.verify([handle], [handle.path])
    other.discard([handle.path])
    assert one.staged_paths(4) == [handle.path]
    one.discard([handle.path])
    assert one.staged_paths(4) == []


def test_the_storage_may_be_any_and_a_sink_may_have_a_directory_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_STORAGE", "s3://bucket/checkpoints/")
    (below, own) = (vertices("out", sink=ListSink("t", staged_in))[0].sink for staged_in in (None, "mine"))
    assert below.root == "s3://bucket/checkpoints/_sinks/shop/out"
    assert (own.root, own.place) == (str(home / "mine"), None)
    assert all(isinstance(own, ability) for ability in (PlacedSink, StagingSink, PortableSink))


def test_a_sink_alone_has_no_place() -> None:
    with pytest.raises(PipelineDefinitionError, match=r"ListSink has no place to stage rows yet.*`staged_in`"):
        ListSink("t").writer()


def test_current_rows_are_staged_anew_where_another_pipeline_staged_them() -> None:
    """A fork reads its own staging, so what it was forked from has staged nothing for it."""
    (shop,) = vertices("out", sink=ListSink("t"))
    (fork,) = vertices("out", sink=ListSink("t"), pipeline="fork")
    (own,) = vertices("out", sink=ListSink("t", "mine"), pipeline="fork")
    assert len({identity_of(vertex) for vertex in (shop, fork, own)}) == 3
    sink = ParquetSink("table")
    assert identity_of(vertices("a", sink=sink)[0]) == identity_of(vertices("b", sink=sink, pipeline="fork")[0])


def test_a_commit_reads_its_rows_in_batches() -> None:
    (vertex,) = vertices("out", sink=ListSink("t"))
    staged = [*stage(vertex.sink, *range(70_000)), *stage(vertex.sink, 7, unique="v", subtask=1)]
    batches = list(vertex.sink.batches(staged))
    assert [batch.num_rows for batch in batches] == [65_536, 4_464, 1]
    assert pa.Table.from_batches(batches)["v"].to_pylist() == [*range(70_000), 7]
    assert list(vertex.sink.batches([])) == []


def test_a_file_that_is_gone_or_not_staged_is_said() -> None:
    (vertex,) = vertices("out", sink=ListSink("t"))
    (handle,) = stage(vertex.sink, 1)
    vertex.sink.discard([handle.path])
    with pytest.raises(SinkError, match=r"chk-4/0-2-u.parquet \(1 rows\) of checkpoint 4 cannot be read.*notify step"):
        list(vertex.sink.batches([handle]))
    with pytest.raises(SinkError, match="is not a path in a sink's staging"):
        list(vertex.sink.batches([replace(handle, path="../x")]))


def test_no_rows_are_staged_only_by_a_sink_of_current_rows() -> None:
    for input, files in ((SinkInput.CHANGES, 0), (SinkInput.CURRENT, 1)):
        (vertex,) = vertices("out", sink=ListSink("t", input=input))
        assert len(stage(vertex.sink)) == files


def test_what_is_missing_in_a_sink_is_named() -> None:
    class Unfinished(StagedParquet):
        pass

    with pytest.raises(NotImplementedError, match=r"Unfinished\.describe is missing"):
        Unfinished().describe()
    with pytest.raises(NotImplementedError, match=r"Unfinished\.commit is missing"):
        Unfinished().commit(1, [], None)  # type: ignore[arg-type]
