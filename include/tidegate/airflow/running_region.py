"""A region for the duration of a step: opened on the connection's Spark, and stopped however the step ends.

It is also stopped if its checkpoint ends meanwhile (deadline, abort): nothing that it would still write could count,
and a stuck Spark job must not hold the pipeline's only DAG run.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

from tidegate.airflow.spark_connection import spark_settings
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import CheckpointError, CheckpointExpiredError, CheckpointNotInProgressError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.coordination.coordinator import CheckpointCoordinator
    from tidegate.spark.region import SparkRegion

log = logging.getLogger("tidegate")

#: Seconds between two polls whether the checkpoint still needs the region.
POLL_EVERY = 2.0
#: Seconds that stopping may take inside a signal handler; Airflow kills the process soon after.
STOP_WITHIN = 4.0


@contextmanager
def running_region(pipeline: Pipeline, spark_conn_id: str, optimizing_compiler: bool) -> Iterator["SparkRegion"]:
    """Run the block with a region on the connection's Spark, and stop that Spark.

    Raises:
        ConfigurationError: If there is no such Spark.
    """
    from tidegate.assembly import open_region

    region = open_region(pipeline, replace(spark_settings(spark_conn_id), brief=not optimizing_compiler))
    try:
        yield region
    except KeyboardInterrupt:
        stop_spark(region.session)  # this thread's connection to the JVM is in the middle of a call
        raise
    finally:
        region.session.stop()


def stop_spark(spark: "SparkSession") -> None:
    """Cancel the session's jobs and end it. The thread that waits for a result gets an error at once.

    This uses a thread of its own: py4j gives each thread one connection, and that of a waiting thread is in use.
    """
    thread = Thread(target=_stop, args=(spark,), daemon=True)
    thread.start()
    thread.join(STOP_WITHIN)


def _stop(spark: "SparkSession") -> None:
    from tidegate.spark.session.sessions import is_connect

    try:
        if is_connect(spark):
            spark.interruptAll()
        else:
            spark.sparkContext.cancelAllJobs()
        spark.stop()
    except Exception as error:  # it may be gone already, as intended
        log.warning("Spark did not stop cleanly: %s", error)


@contextmanager
def only_while_wanted(
    coordinator: "CheckpointCoordinator", checkpoint_id: int, spark: "SparkSession"
) -> Iterator[None]:
    """Stop Spark once the checkpoint has ended or passed its deadline.

    Raises:
        CheckpointExpiredError: In place of Spark's own error, if the deadline has passed.
        CheckpointNotInProgressError: In place of Spark's own error, if the checkpoint has ended.
    """
    done, ended = Event(), list[CheckpointError]()

    def watch() -> None:
        while not done.wait(POLL_EVERY):
            try:
                coordinator.acknowledge(checkpoint_id)
            except (CheckpointExpiredError, CheckpointNotInProgressError) as error:
                ended.append(error)
                return stop_spark(spark)
            except CheckpointError as error:  # unknown for now; the work may still be needed
                log.warning("%s", error)

    watcher = Thread(target=watch, name=f"checkpoint-{checkpoint_id}", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if ended:
            raise ended[0] from error
        raise
    finally:
        done.set()
        watcher.join()
