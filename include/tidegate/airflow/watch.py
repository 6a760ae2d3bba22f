"""A DAG that watches pipelines: it detects those that complete no checkpoints, and finishes deliveries that a crash has
interrupted.
"""

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context

from tidegate.airflow.callbacks import CallbackNotifier, Callbacks, OneOrMore
from tidegate.airflow.dag import TASK_DEFAULTS
from tidegate.airflow.maintenance import Definitions
from tidegate.airflow.step import airflow_outcome
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import ConfigurationError

EVERY = timedelta(minutes=5)


def watch_dag(
    *pipelines: Pipeline,
    schedule: Any = EVERY,  # Airflow has no public type for a schedule
    on_checkpoint_failed: OneOrMore = None,
    on_verdict_held: OneOrMore = None,
    on_pipeline_failed: OneOrMore = None,
    on_pipeline_stale: OneOrMore = None,
    on_pipeline_fresh: OneOrMore = None,
    **dag_kwargs: Any,
) -> DAG:
    """Make the DAG `tidegate_watch`, whose runs do the work of `tidegate watch --once`. A pipeline is stale after its
    `CheckpointConfig(stale_after=…)`.

    Args:
        *pipelines: The pipelines' definitions.
        schedule: The schedule, as for any `DAG`.
        on_checkpoint_failed: Callbacks for a failed checkpoint of any of the pipelines.
        on_verdict_held: Callbacks for a checkpoint that waits for manual approval.
        on_pipeline_failed: Callbacks for a pipeline that has failed and waits to be resumed.
        on_pipeline_stale: Callbacks for a pipeline that is stale.
        on_pipeline_fresh: Callbacks for a pipeline that is no longer stale.
        **dag_kwargs: The arguments of `DAG`.

    Returns:
        The DAG.
    """
    names = [pipeline.name for pipeline in pipelines]
    options: dict[str, Any] = {
        "dag_id": "tidegate_watch",
        "catchup": False,  # only the current state is of interest
        "max_active_runs": 1,
        "tags": ["tidegate"],
        "doc_md": "Detects pipelines that complete no checkpoints, and sends the configured notifications.",
    } | dag_kwargs
    options["default_args"] = TASK_DEFAULTS | (dag_kwargs.get("default_args") or {})
    callbacks = Callbacks(
        on_checkpoint_failed=on_checkpoint_failed,
        on_verdict_held=on_verdict_held,
        on_pipeline_failed=on_pipeline_failed,
        on_pipeline_stale=on_pipeline_stale,
        on_pipeline_fresh=on_pipeline_fresh,
    )
    with DAG(schedule=schedule, **options) as dag:
        WatchOperator.partial(
            task_id="watch",
            pipelines=Definitions(pipelines),
            callbacks=callbacks,
            map_index_template="{{ task.pipeline }}",
        ).expand(pipeline=names)
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this function; Airflow shows its code
    return dag


class WatchOperator(BaseOperator):
    """Watches one of the pipelines. It succeeds even if the pipeline is stale or has failed, which it logs and reports.

    Args:
        pipelines: The definitions.
        pipeline: The name of the pipeline.
        callbacks: The callbacks that the DAG's author has set.
        **kwargs: The arguments of `BaseOperator`.
    """

    def __init__(self, *, pipelines: Definitions, pipeline: str, callbacks: Callbacks, **kwargs: Any) -> None:
        super().__init__(do_xcom_push=False, **kwargs)
        self.pipelines: Mapping[str, Pipeline] = pipelines
        self.pipeline = pipeline
        self.callbacks = callbacks

    def execute(self, context: Context) -> None:
        # Imported here: DAG files are parsed often, and the modules that run a step take seconds to import.
        from tidegate.assembly import open_coordinator

        with airflow_outcome(context):
            if self.pipeline not in self.pipelines:
                raise ConfigurationError(
                    f"{self.pipeline!r} is not one of {', '.join(self.pipelines)}. Nothing was "
                    "changed. Correct the name."
                )
            notifiers_ = [CallbackNotifier(self.callbacks, context)]
            health = open_coordinator(self.pipelines[self.pipeline], notifiers=notifiers_).reporting.watch()
        self.log.info("%s", health.summary())
