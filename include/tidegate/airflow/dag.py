"""Makes the DAG of a pipeline: a DAG run is a checkpoint.

    trigger ── snapshot ── acknowledge ── validate ── finalize ── notify
    and the teardown `abort` after any of those before `notify`.

The steps run one after the other. If `snapshot` runs on Spark, `acknowledge` has nothing left to wait for; if a
continuous region takes the snapshot, `snapshot` ends at once. So no task waits for a later one, which `airflow dags
test` would do for ever, and the one of the two that waits enforces the deadline. `abort` is a teardown, because only
such a task still runs after a DAG run was marked by hand. It is not downstream of `notify`: past the commit point
nothing can be aborted.
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
#: any component (`outcome.OUTLASTED`). If slots are scarce, checkpoints in progress precede new requests, because they
#: hold the pipeline.
TASK_DEFAULTS: dict[str, Any] = {
    "retries": retries_to_outlast(OUTLASTED),
    "retry_delay": RETRY_DELAY,
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": LONGEST_RETRY_DELAY,
    "weight_rule": "upstream",
}

_KINDS = (
    "A SAVEPOINT precedes other requests and is kept. A SYNC_SAVEPOINT aborts the checkpoint in progress, is kept "
    "too, and stops the pipeline; `tidegate resume` continues from it."
)
_NAME = "For a savepoint: its name. By default it has only a number."
_NOTE = "For a savepoint: its purpose."
_FORMAT = "For a savepoint: canonical also writes it to a directory of its own, complete and relocatable."
_DIRECTORY = "For a canonical savepoint: its directory, a path or URL. By default it is next to the checkpoints."


def checkpoint_dag(
    pipeline: Pipeline,
    schedule: Any = None,  # Airflow has no public type for a schedule
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
        pipeline: The pipeline's definition.
        schedule: The schedule, as for any `DAG`.
        spark_conn_id: The id of the Airflow connection to Spark.
        optimizing_compiler: Whether Java uses its optimising compiler in a Spark that a task starts on its own machine.
            It pays off where tasks use Spark for more than a minute. A cluster and a Spark Connect server use it in any
            case.
        on_checkpoint_failed: Callbacks for a checkpoint that has failed, as for any `DAG`.
        on_verdict_held: Callbacks for a checkpoint that waits for manual approval.
        on_pipeline_failed: Callbacks for a pipeline that has failed and waits to be resumed.
        **dag_kwargs: The arguments of `DAG`.

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
        "max_active_runs": 1,  # a second run would only wait, because the first holds the pipeline
        "catchup": False,  # a run takes all data that has arrived, so a missed one has nothing left to take
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
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this function; Airflow shows its code
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
