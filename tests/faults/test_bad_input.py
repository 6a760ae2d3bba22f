"""Bad input through the whole path: the error a user reads, and that it cost nothing."""

import os

import pytest
from orders import SCHEMA, Shop, check_tables, newest, orders_pipeline, rows_of
from sizes import later
from worlds import Judge

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, assembly, count, expect, suite, sum_
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointExpiredError,
    MalformedRowsError,
    PipelineDefinitionError,
    SourceChangedError,
    StateIntegrityError,
    StateSchemaError,
    ValidationFailedError,
)
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark


@pytest.fixture
def checkpoints(tmp_path, store, spark):
    """Takes a whole checkpoint of a pipeline; an error aborts it, as every driver does."""
    from tidegate.spark.region import SparkRegion

    settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
    requests = iter(range(100))

    def take(pipeline, validator=None, before_finalize=lambda: None):
        storage = ArrowCheckpointStorage(settings.storage)
        coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        region = SparkRegion(coordinator.graph, spark, storage, SystemClock(), settings)
        checkpoint_id = coordinator.trigger(f"r{next(requests)}").checkpoint_id
        judge = assembly.open_validator(region.graph, lambda: region, settings) if validator is None else validator
        try:
            coordinator.snapshot(checkpoint_id, region)
            coordinator.validate(checkpoint_id, judge)
            before_finalize()
            coordinator.finalize(checkpoint_id)
            coordinator.notify(checkpoint_id)
        except CheckpointError as error:
            coordinator.abort(checkpoint_id, error.reason, str(error))
            raise
        return checkpoint_id

    return take


def counting(tmp_path, key="customer", source="orders", checkpoints=None, previous=None, **options):
    pipeline = Pipeline("orders", parallelism=2, max_parallelism=16, checkpoints=checkpoints or CheckpointConfig())
    files = FileSource(str(tmp_path / "landing"), **{"format": "csv", "schema": SCHEMA} | options)
    totals = pipeline.source(source, files, previous).key_by(key).aggregate("totals", n=count(), total=sum_("amount"))
    totals.sink("totals", ParquetSink(str(tmp_path / "tables/totals")))
    return pipeline


def test_a_truncated_file_is_named_and_the_run_after_its_correction_goes_through(tmp_path, checkpoints):
    shop = Shop(tmp_path)
    shop.deliver()
    checkpoints(orders_pipeline(tmp_path))
    bad = tmp_path / "landing" / "bad.csv"
    bad.write_text("customer,amount\nann,many\n")
    with pytest.raises(MalformedRowsError, match=r"bad\.csv"):
        checkpoints(orders_pipeline(tmp_path))
    check_tables(shop)
    bad.unlink()
    shop.deliver()
    checkpoints(orders_pipeline(tmp_path))
    check_tables(shop)


def test_an_unreadable_parquet_file_is_named(tmp_path, checkpoints):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "broken.parquet").write_bytes(b"PAR1 this is not it")
    with pytest.raises(CheckpointError, match=r"broken\.parquet"):
        checkpoints(counting(tmp_path, format="parquet"))


def test_a_file_that_changed_after_it_was_read_is_named(tmp_path, checkpoints):
    shop = Shop(tmp_path)
    shop.deliver(files=1)
    checkpoints(orders_pipeline(tmp_path))
    with (tmp_path / "landing" / "0001.csv").open("a") as file:
        file.write("ann,5\n")
    with pytest.raises(SourceChangedError, match=r"0001\.csv"):
        checkpoints(orders_pipeline(tmp_path))
    check_tables(shop)


def test_an_unknown_key_column_is_named_with_those_there_are(tmp_path, checkpoints):
    Shop(tmp_path).deliver()
    with pytest.raises(PipelineDefinitionError, match=r"'client'.*customer, amount"):
        checkpoints(counting(tmp_path, key="client"))


def test_a_definition_that_changed_under_a_checkpoint_is_refused_before_it_loses_rows(
    tmp_path, checkpoints, store, spark
):
    from tidegate.spark.region import SparkRegion

    shop = Shop(tmp_path)
    shop.deliver()
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))

    def opened(parallelism):
        coordinator = CheckpointCoordinator(
            orders_pipeline(tmp_path, parallelism=parallelism), store, storage, SystemClock()
        )
        return coordinator, SparkRegion(coordinator.graph, spark, storage, SystemClock())

    (before, region), (after, other_region) = opened(2), opened(5)
    checkpoint_id = before.trigger("deployed meanwhile").checkpoint_id
    with pytest.raises(
        PipelineDefinitionError, match=r"totals had 2 subtasks .* has 5 subtasks .* let this one be aborted"
    ):
        after.snapshot(checkpoint_id, other_region)
    before.snapshot(checkpoint_id, region)
    with pytest.raises(PipelineDefinitionError, match="Nothing was run or validated"):
        after.validate(checkpoint_id, Judge(True))
    after.abort(checkpoint_id, FailureReason.TASK_FAILURE, "the definition changed")
    checkpoints(orders_pipeline(tmp_path, parallelism=5))
    check_tables(shop)


def test_a_renamed_source_is_refused_before_it_reads_everything_once_more(tmp_path, checkpoints):
    shop = Shop(tmp_path)
    shop.deliver()
    checkpoints(counting(tmp_path))
    with pytest.raises(StateSchemaError, match=r"state or positions of orders, which .* Restore the old name"):
        checkpoints(counting(tmp_path, source="purchases"))
    discarding = CheckpointConfig(allow_non_restored_state=True)
    checkpoints(counting(tmp_path, source="purchases", checkpoints=discarding))
    counted = {row["customer"]: row["n"] for row in rows_of(tmp_path / "tables/totals") if row["checkpoint"] == 3}
    assert sum(counted.values()) == 2 * len(shop.rows)
    before = len(shop.rows)
    shop.deliver()
    checkpoints(counting(tmp_path, source="sales", previous="purchases"))
    counted = newest(rows_of(tmp_path / "tables/totals"), "customer")
    assert sum(row["n"] for row in counted.values()) == before + len(shop.rows)


def test_a_changed_state_schema_is_refused_by_column(tmp_path, checkpoints):
    shop = Shop(tmp_path)
    shop.deliver()
    checkpoints(counting(tmp_path))
    shop.deliver()
    with pytest.raises(StateSchemaError, match=r"(?s)totals.*total"):
        checkpoints(counting(tmp_path, schema="customer string, amount double"))
    checkpoints(counting(tmp_path))


@pytest.mark.parametrize("damage", [later("truncated"), "wrong checksum", later("missing")])
def test_a_damaged_run_is_named_and_nothing_is_built_on_it(tmp_path, checkpoints, damage):
    shop = Shop(tmp_path)
    shop.deliver(rows=40)
    checkpoints(counting(tmp_path))
    runs = sorted((tmp_path / "checkpoints").rglob("totals/*.parquet"))
    assert runs
    for run in runs:
        content = run.read_bytes()
        if damage == "missing":
            run.unlink()
        else:
            run.write_bytes(content[:-20] if damage == "truncated" else b"X" + content[1:])
    for copy in (tmp_path / "cache").rglob("*.copy"):
        copy.unlink()
    shop.deliver(rows=40)
    with pytest.raises(StateIntegrityError, match=r"chk-1/totals/.*\.parquet"):
        checkpoints(counting(tmp_path))


@pytest.mark.parametrize("damage", ["missing", later("truncated"), later("altered")])
def test_damage_that_nobody_reads_is_noticed_before_a_checkpoint_refers_to_it_again(
    damage, tmp_path, checkpoints, store
):
    """Nothing arrives for the state, or the state is read from a copy:
    what lies on storage is looked at all the same."""
    Shop(tmp_path).deliver(rows=40)
    checkpoints(counting(tmp_path))
    run = max((tmp_path / "checkpoints/orders/chk-1/totals").glob("*.parquet"))
    content = run.read_bytes()
    if damage == "missing":
        run.unlink()
    else:
        run.write_bytes(content[:-20] if damage == "truncated" else content[:40] + b"X" + content[41:])
    with pytest.raises(StateIntegrityError) as caught:
        checkpoints(counting(tmp_path))
    assert str(caught.value).startswith(
        "Checkpoint 2 of pipeline orders was not completed, because it refers to a file"
    )
    assert f"chk-1/totals/{run.name}" in str(caught.value)
    assert "The previous checkpoint is still the latest" in str(caught.value)
    assert store.checkpoint("orders", 2).failure_reason is FailureReason.CHECKPOINT_DECLINED
    run.write_bytes(content)
    checkpoints(counting(tmp_path))


@pytest.mark.parametrize("damage", [later("missing"), "truncated"])
def test_damage_to_what_was_staged_is_noticed_before_the_checkpoint_completes(damage, tmp_path, checkpoints, store):
    """Behind the commit point it would be too late: the rows are promised then, and the file is the only one."""
    shop = Shop(tmp_path)
    shop.deliver(rows=40)
    pipeline = counting(tmp_path)
    staging = tmp_path / "tables/totals/_staging/chk-1"

    def meddle():
        staged = max(staging.iterdir())
        if damage == "missing":
            staged.unlink()
        else:
            staged.write_bytes(staged.read_bytes()[:-20])

    with pytest.raises(StateIntegrityError, match="Checkpoint 1 of pipeline orders was not completed") as caught:
        checkpoints(pipeline, before_finalize=meddle)
    assert str(staging.relative_to(tmp_path / "tables/totals")) in str(caught.value)
    assert str(tmp_path / "tables/totals") in str(caught.value)
    assert store.checkpoint("orders", 1).failure_reason is FailureReason.CHECKPOINT_DECLINED
    checkpoints(pipeline)
    assert sum(row["n"] for row in rows_of(tmp_path / "tables/totals")) == len(shop.rows)


def test_a_damaged_list_of_files_read_is_noticed_although_nothing_arrives(tmp_path, checkpoints):
    shop = Shop(tmp_path)
    shop.deliver(rows=40)
    checkpoints(counting(tmp_path))
    (manifest,) = (tmp_path / "checkpoints/orders/chk-1/orders").glob("*.parquet")
    manifest.write_bytes(manifest.read_bytes()[:-1])
    with pytest.raises(StateIntegrityError, match=r"chk-1/orders/.*\.parquet"):
        checkpoints(counting(tmp_path))


def test_an_expectation_on_a_missing_column_stops_the_checkpoint(tmp_path, checkpoints):
    Shop(tmp_path).deliver()
    pipeline = Pipeline("orders")
    rows = pipeline.source("orders", FileSource(str(tmp_path / "landing"), schema=SCHEMA))
    unfit = suite("s", expect("column_values_to_not_be_null", column="colour"))
    # Behind a transform nobody knows the columns before.
    rows.transform(lambda df: df).sink("out", ParquetSink(str(tmp_path / "tables/out")), expect=unfit)
    with pytest.raises(ValidationFailedError, match="colour") as caught:
        checkpoints(pipeline)
    assert "Nothing became visible" in str(caught.value)
    assert not list((tmp_path / "tables/out").glob("checkpoint=*"))


def test_a_passed_deadline_aborts_with_what_to_do(tmp_path, store):
    class Late(SystemClock):
        late = False

        def now(self):
            return super().now().replace(year=2100) if self.late else super().now()

    clock = Late()
    coordinator = CheckpointCoordinator(counting(tmp_path), store, ArrowCheckpointStorage(str(tmp_path)), clock)
    checkpoint_id = coordinator.trigger("r").checkpoint_id
    assert coordinator.acknowledge(checkpoint_id).num_acknowledged == 0
    clock.late = True
    with pytest.raises(CheckpointExpiredError, match=r"by its deadline .* raise CheckpointConfig\(timeout=…\)"):
        coordinator.acknowledge(checkpoint_id)
    assert store.checkpoint("orders", checkpoint_id).failure_reason is FailureReason.CHECKPOINT_EXPIRED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path, checkpoints):
    Shop(tmp_path).deliver(files=1)
    (tmp_path / "landing" / "0001.csv").chmod(0)
    with pytest.raises(CheckpointError, match=r"0001\.csv"):
        checkpoints(counting(tmp_path), Judge(True))
