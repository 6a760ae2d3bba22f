"""DAGs for the end-to-end tests: a small pipeline, driven by two DAGs, one that is too slow, one that waits for data,
some whose runs are marked by hand, and one for backfills.

A pipeline is held, inside its Spark job, while the file `<name>.hold` exists; `<name>.pid` then names the driver.
"""

import json
import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, expect, suite, sum_
from tidegate.airflow import checkpoint_dag, restore_dag, sink_asset

HOME = Path(os.environ["TIDEGATE_HOME"])


def holdable(name):
    """A transform that stops where it is, on the executor, as long as the test wants."""

    def hold(df):
        HOME.joinpath(f"{name}.pid").write_text(str(os.getpid()))
        marker = str(HOME / f"{name}.hold")

        def wait(batches):
            while os.path.exists(marker):
                time.sleep(0.1)
            yield from batches

        return df.mapInArrow(wait, df.schema)

    return hold


def counting(name, timeout, suite_of_rows=None):
    pipeline = Pipeline(
        name, parallelism=2, max_parallelism=8, checkpoints=CheckpointConfig(timeout=timeout, retained=3)
    )
    source = FileSource(f"landing/{name}", format="json", schema="k STRING, n INT")
    rows = pipeline.source("numbers", source).transform(holdable(name))
    rows.sink("rows", ParquetSink(f"tables/{name}/rows"), expect=suite_of_rows)
    totals = rows.key_by("k").aggregate("totals", lines=count(), total=sum_("n"))
    totals.sink("totals", ParquetSink(f"tables/{name}/totals", mode="latest"))
    return pipeline


def tell(context):
    """Writes down what a callback is told, and by which task."""
    told = {name: context[name] for name in ("pipeline", "checkpoint", "reason", "link")}
    with HOME.joinpath("told.jsonl").open("a") as file:
        file.write(json.dumps(told | {"task": context["ti"].task_id}) + "\n")


not_negative = expect("column_values_to_be_between", column="n", min_value=0)
#: What is more than 100 waits for a person.
unusual = expect("column_values_to_be_between", column="n", max_value=100, on_failure="hold", hold_for="1 h")
small = counting("small", "5 min", suite("rows", not_negative))

dag = checkpoint_dag(small, spark_conn_id="spark_server", on_checkpoint_failed=tell)  # Spark Connect
again = checkpoint_dag(small, dag_id="small_again", max_active_runs=3, spark_conn_id="spark_server")
walked_pipeline = counting("walked", "5 min", suite("rows", not_negative, unusual))
walked = checkpoint_dag(walked_pipeline, spark_conn_id="spark_server")
restore = restore_dag(small, walked_pipeline)
hasty = checkpoint_dag(counting("hasty", "40 s"))  # Spark inside the task's own process tree
doomed = checkpoint_dag(counting("doomed", "5 min"))
brief = checkpoint_dag(
    counting("brief", "5 min"), spark_conn_id="spark_server", default_args={"retries": 1, "retry_delay": timedelta()}
)
brief.get_task("snapshot").execution_timeout = timedelta(seconds=5)
overruled = checkpoint_dag(counting("overruled", "5 min", suite("rows", unusual)), spark_conn_id="spark_server")
#: Over before the tests begin, so that only a backfill makes runs of it.
yearly = checkpoint_dag(
    counting("yearly", "10 min"), "@yearly", spark_conn_id="spark_server",
    start_date=datetime(2020, 1, 1), end_date=datetime(2024, 1, 1),
)  # fmt: skip

#: Its checkpoints need no Spark: the tests stand where its continuous region would be.
marked_pipeline = Pipeline("marked", max_parallelism=8, checkpoints=CheckpointConfig(timeout="5 min"))
numbers = marked_pipeline.source("numbers", FileSource("landing/marked", format="json", schema="k STRING, n INT"))
numbers.sink("rows", ParquetSink("tables/marked/rows"))
quick = {"max_active_runs": 3, "default_args": {"retries": 1, "retry_delay": timedelta()}}
marked = checkpoint_dag(marked_pipeline, **quick)
timed = checkpoint_dag(marked_pipeline, dag_id="timed", dagrun_timeout=timedelta(seconds=45))
deleted = checkpoint_dag(marked_pipeline, dag_id="deleted")

with DAG("consumer", schedule=[sink_asset("small", "rows"), sink_asset("small", "totals")]) as consumer:
    EmptyOperator(task_id="consume")
