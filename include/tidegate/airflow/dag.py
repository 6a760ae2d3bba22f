"""Makes the DAG of a pipeline: a DAG run is a checkpoint.

    trigger ── snapshot ── acknowledge ── validate ── finalize ── notify
    and the teardown `abort` after any of those before `notify`.

The steps run one after the other. If `snapshot` runs on Spark, nothing is left for `acknowledge` to wait for; if it
leaves the snapshot to a continuous region, it ends at once. So no task waits for one behind it, as `airflow dags test`
would for ever, and whichever of the two waits enforces the deadline. `abort` is a teardown: only such a task still runs
after a DAG run was marked by hand. It is not downstream of `notify`: past the commit point nothing can be aborted.
"""

import sys
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from tidegate.airflow.abort import AbortCheckpointOperator
from tidegate.airflow.callbacks import Callbacks, OneOrMore
from tidegate.airflow.operators import (
    DEFAULT_SPARK,
    FinalizeCheckpointOperator,
    NotifyCheckpointOperator,
    SnapshotOperator,
    ValidateCheckpointOperator,
)
from tidegate.airflow.outcome import LONGEST_RETRY_DELAY, OUTLASTED, RETRY_DELAY, retries_to_outlast
from tidegate.airflow.request import TriggerCheckpointOperator
from tidegate.airflow.sensor import AcknowledgeCheckpointSensor
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import CheckpointKind

#: Every step may be repeated. Errors that a repetition cannot fix fail at once, and the retries outlast the restart of
#: any component (`outcome.OUTLASTED`). If slots are scarce,
#: checkpoints in progress come before new requests, because they hold the pipeline.
TASK_DEFAULTS: dict[str, Any] = {
    "retries": retries_to_outlast(OUTLASTED),
    "retry_delay": RETRY_DELAY,
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": LONGEST_RETRY_DELAY,
    "weight_rule": "upstream",
}

_KINDS = (
    "A SAVEPOINT comes before other requests and is kept. A SYNC_SAVEPOINT aborts the checkpoint in progress, is kept "
    "too, and stops the pipeline: `tidegate resume` continues from it."
)
_NAME = "Of a savepoint: what it is called. Otherwise it is known by its number."
_NOTE = "Of a savepoint: what it is for."
_FORMAT = "Of a savepoint: canonical is also written to a directory of its own, complete and relocatable."
_DIRECTORY = "Of a canonical savepoint: that directory, a path or URL. Otherwise it lies beside the checkpoints."


def checkpoint_dag(
    pipeline: Pipeline,
    schedule: Any = None,  # Airflow has no public name for what it takes
    *,
    spark_conn_id: str = DEFAULT_SPARK,
    optimizing_compiler: bool = False,
    on_checkpoint_failed: OneOrMore = None,
    on_verdict_held: OneOrMore = None,
    on_pipeline_failed: OneOrMore = None,
    **dag_kwargs: Any,
) -> DAG:
    """Make the DAG of a pipeline: a DAG run is a checkpoint. It is named after the pipeline unless `dag_id` is given.

    Args:
        pipeline: Its definition.
        schedule: When it runs, as of any `DAG`.
        spark_conn_id: The Airflow connection of Spark.
        optimizing_compiler: Whether Java has its optimising compiler in a Spark that a task starts on its own machine.
            It pays where tasks work on Spark for more than a minute. A cluster and a Spark Connect server have it
            anyway.
        on_checkpoint_failed: Callbacks for a checkpoint that has failed, as of any `DAG`.
        on_verdict_held: Callbacks for a checkpoint that waits for manual approval.
        on_pipeline_failed: Callbacks for a pipeline that has failed, and waits to be resumed.
        **dag_kwargs: Those of `DAG`.

    Returns:
        The DAG.

    Raises:
        PipelineDefinitionError: If the definition is wrong. Airflow shows it as the DAG's import error.

    Example:
        ```python
        from tidegate import FileSource, ParquetSink, Pipeline
        from tidegate.airflow import checkpoint_dag

        pipeline = Pipeline("shop")
        orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        orders.sink("orders", ParquetSink("tables/orders"))
        dag = checkpoint_dag(pipeline, schedule="@hourly", tags=["shop"])
        ```
    """
    compile_graph(pipeline)
    options: dict[str, Any] = {
        "dag_id": pipeline.name,
        "max_active_runs": 1,  # a second run would only wait: the first holds the pipeline
        "catchup": False,  # a run takes whatever has arrived, so a missed one has nothing left to take
        "tags": ["tidegate"],
        "params": {
            "kind": Param("CHECKPOINT", enum=list(CheckpointKind), description=_KINDS),
            "name": Param(None, type=["null", "string"], description=_NAME),
            "note": Param(None, type=["null", "string"], description=_NOTE),
            "format": Param("native", enum=["native", "canonical"], description=_FORMAT),
            "directory": Param(None, type=["null", "string"], description=_DIRECTORY),
        },
        "doc_md": f"Checkpoints of the pipeline `{pipeline.name}`. A DAG run is a checkpoint.",
    } | dag_kwargs
    options["default_args"] = TASK_DEFAULTS | (dag_kwargs.get("default_args") or {})
    with DAG(schedule=schedule, **options) as dag:
        _steps(
            {"spark_conn_id": spark_conn_id, "optimizing_compiler": optimizing_compiler},
            pipeline=pipeline,
            callbacks=Callbacks(
                on_checkpoint_failed=on_checkpoint_failed,
                on_verdict_held=on_verdict_held,
                on_pipeline_failed=on_pipeline_failed,
            ),
        )
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this; Airflow shows its code
    return dag


def _steps(spark: Mapping[str, Any], **shared: Any) -> None:
    trigger = TriggerCheckpointOperator(task_id="trigger", **shared)
    snapshot = SnapshotOperator(task_id="snapshot", **spark, **shared)
    acknowledge = AcknowledgeCheckpointSensor(task_id="acknowledge", **shared)
    validate = ValidateCheckpointOperator(task_id="validate", **spark, **shared)
    finalize = FinalizeCheckpointOperator(task_id="finalize", **shared)
    notify = NotifyCheckpointOperator(task_id="notify", **spark, **shared)
    abort = AbortCheckpointOperator(task_id="abort", **shared)
    trigger >> snapshot >> acknowledge >> validate >> finalize >> notify
    [trigger, snapshot, acknowledge, validate, finalize] >> abort
