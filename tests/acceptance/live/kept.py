"""DAGs for the tests that kill: a small pipeline whose snapshot can be held, and a task that leaves a process behind.

The snapshot is held, inside its Spark job, while the file `hold` exists;
`driver` then has the process that waits for it.
"""

import os
import subprocess
import time
from pathlib import Path

from airflow.sdk import DAG, task

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, sum_
from tidegate.airflow import checkpoint_dag

HOME = Path(os.environ["TIDEGATE_HOME"])


def hold(df):
    HOME.joinpath("driver").write_text(str(os.getpid()))
    marker = str(HOME / "hold")

    def wait(batches):
        while os.path.exists(marker):
            time.sleep(0.1)
        yield from batches

    return df.mapInArrow(wait, df.schema)


kept = Pipeline("kept", parallelism=1, max_parallelism=8, checkpoints=CheckpointConfig(timeout="15 min"))
numbers = kept.source("numbers", FileSource("landing", format="json", schema="k STRING, n INT")).transform(hold)
totals = numbers.key_by("k").aggregate("totals", lines=count(), total=sum_("n"))
totals.sink("totals", ParquetSink("tables/totals", mode="latest"))
dag = checkpoint_dag(kept)

with DAG("daemon", schedule=None) as daemon:

    @task
    def leave():
        """A process in a session of its own, as a shell command of a task has, and a task that does not end."""
        process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        HOME.joinpath("daemon").write_text(str(process.pid))
        process.wait()

    leave()
