"""Each mistake that could be made with derived columns and with drifting files is noticed: planted, it fails a test of
the right ones. A Spark task runs what the driver has sent it, so they are planted in the driver."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from derived_script import DAY, Script
from dying_checkpoints import finalize, rescaled
from listed import Listed
from spark_checkpoints import Checkpoints

from tidegate import FileSource, ParquetSink, Pipeline, count
from tidegate.dataflow import execution_plan
from tidegate.dataflow.staging import Had
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import SourceContext
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources import dialect, parquet_frames, parsing, pattern_frames, text_rows
from tidegate.sources.allowed import Allowed
from tidegate.spark.checking import DefinitionCheck
from tidegate.spark.driver import derived, operator_jobs
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

Plant = Callable[[pytest.MonkeyPatch], None]


def tables_follow_state(spark: Any, root: Path) -> None:
    script = Script(root, seed=5)
    checkpoints = Checkpoints(script.pipeline(), spark, root, clock=script.clock)
    for _ in range(3):
        script.deliver(15)
        script.clock.advance(4 * DAY)
        _take(checkpoints)
        script.check(checkpoints)
    script.clock.advance(11 * DAY)
    script.factor = 100
    checkpoints = rescaled(checkpoints, script.pipeline())
    _take(checkpoints)
    script.check(checkpoints)


def _take(checkpoints: Checkpoints) -> None:
    checkpoints.trigger()
    checkpoints.attempt_once()
    finalize(checkpoints)


def what_is_not_row_wise_is_refused(spark: Any, root: Path) -> None:
    for transform in (
        lambda rows: rows.selectExpr("*", "count(*) over () as at"),
        lambda rows: rows.selectExpr("upper(k) as k", "n"),
    ):
        pipeline = Pipeline("shown")
        counts = pipeline.source("events", Listed("k string")).key_by("k").aggregate("counts", n=count())
        counts.transform(transform).sink("out", ParquetSink(str(root / "t"), mode="latest"))
        assert DefinitionCheck(compile_graph(pipeline), spark, str(root)).problems()


DELIVERED = {"v1_a": "5 v, 'a' key", "v2": "'b' k", "c": "'c' key", "d": "'d' k, 7L v, 1 more"}


def files_drift(spark: Any, root: Path) -> None:
    for form in ("csv", "parquet"):
        landing = root / form
        landing.mkdir()
        aliases, schemas = {"k": ["key"]}, {"v1_*": "v INT, key STRING", "v*": "k STRING"}
        source = FileSource(
            str(landing), form, schema="k STRING, v BIGINT", evolve="add", aliases=aliases, schemas=schemas
        )
        for name, columns in DELIVERED.items():
            made = spark.sql(f"select {_aliased(columns)}").coalesce(1)
            made.write.option("header", "true").format(form).save(str(root / "made" / name / form))
            (written,) = (root / "made" / name / form).glob("part-*")
            written.rename(landing / f"{name}.{form}")
        storage = ArrowCheckpointStorage(str(root / "checkpoints"))
        context = SourceContext(storage, 1, f"p/chk-1/{form}/0-1-x")
        segment, _ = source.poll(0, None, context)
        assert segment is not None
        found = _rows(source, spark, segment)
        assert found == [("a", 5), ("b", None), ("c", None), ("d", 7)]
        (landing / f"e.{form}").write_bytes((landing / f"d.{form}").read_bytes())
        strict = FileSource(str(landing), form, schema="k2 STRING, v BIGINT", evolve="add", glob="e.*")
        segment, _ = strict.poll(0, None, context)
        assert segment is not None
        with pytest.raises(Exception) as raised:  # noqa: PT011
            strict.read(spark, [segment]).collect()
        assert isinstance(strict.explain(raised.value, [segment]) or raised.value, MalformedRowsError)


def _rows(source: FileSource, spark: Any, segment: Any) -> list[tuple[Any, ...]]:
    try:
        return sorted(map(tuple, source.read(spark, [segment]).collect()), key=repr)
    except Exception as error:
        raise AssertionError("the files could not be read") from error


def _aliased(columns: str) -> str:
    return ", ".join("{} as {}".format(*column.split()) for column in columns.split(", "))


def _no_aliases(patch: pytest.MonkeyPatch) -> None:
    for module in (dialect, parsing):
        patch.setattr(module, "aliases_of", lambda source: {})


def _both_at_once(patch: pytest.MonkeyPatch) -> None:
    for module in (dialect, parsing, text_rows):
        patch.setattr(module, "allowed_of", lambda source: Allowed(True, True))


def _without_its_last_run(patch: pytest.MonkeyPatch) -> None:
    stage = operator_jobs.DerivedStaging

    def planted(streams: Any, sink: Any, staging: Any, layout: Any, specs: Any) -> Any:
        before = {index: replace(spec, runs=spec.runs[:-1]) for index, spec in specs.items()}
        return stage(streams, sink, staging, layout, before)

    patch.setattr(operator_jobs, "DerivedStaging", planted)


def _nothing_is_gone(patch: pytest.MonkeyPatch) -> None:
    plan = derived.DerivedPlan

    def planted(indexes: Any, specs: Any, staging: Any, columns: Any, keys: Any) -> Any:
        now = {index: Had(specs[index].runs, specs[index].horizon) for index in staging.had}
        return plan(indexes, specs, replace(staging, had=now), columns, keys)

    patch.setattr(derived, "DerivedPlan", planted)


MISTAKES: dict[str, tuple[Any, Plant]] = {
    "other code leaves the table as it is": (
        tables_follow_state,
        lambda patch: patch.setattr(execution_plan, "derivation_of", lambda sink: {}),
    ),
    "a subtask to which something came is left out": (
        tables_follow_state,
        lambda patch: patch.setattr(operator_jobs, "_new_runs", lambda vertex, done: {}),
    ),
    "the table has the state of before": (tables_follow_state, _without_its_last_run),
    "what leaves the state stays in the table": (tables_follow_state, _nothing_is_gone),
    "no node of a plan is looked at": (
        what_is_not_row_wise_is_refused,
        lambda patch: patch.setattr(derived, "not_row_wise", lambda before, after: []),
    ),
    "a key is what has its name": (
        what_is_not_row_wise_is_refused,
        lambda patch: patch.setattr(derived, "_keys", lambda what, sink, keys, rows: {key: key for key in keys}),
    ),
    "other names are not known": (files_drift, _no_aliases),
    "one column less and one more is as it should be": (files_drift, _both_at_once),
    "the last pattern that matches counts": (
        files_drift,
        lambda patch: patch.setattr(
            pattern_frames, "by_names", lambda named, files, real=pattern_frames.by_names: real(named[::-1], files)
        ),
    ),
    "of the names of a column in Parquet, only the first is read": (
        files_drift,
        lambda patch: patch.setattr(parquet_frames, "_named", lambda name: "`k`" if name == "key" else f"`{name}`"),
    ),
}


@pytest.mark.parametrize("right", [tables_follow_state, what_is_not_row_wise_is_refused, files_drift])
def test_nothing_is_noticed_where_nothing_is_planted(right: Any, spark: Any, tmp_path: Path) -> None:
    right(spark, tmp_path)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_noticed(mistake: str, spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    notices, plant = MISTAKES[mistake]
    plant(monkeypatch)
    with pytest.raises(BaseException) as noticed:  # noqa: PT011
        notices(spark, tmp_path)
    assert isinstance(noticed.value, AssertionError | MalformedRowsError | pytest.fail.Exception), noticed.value
