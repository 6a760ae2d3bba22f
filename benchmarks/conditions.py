"""What a run of the bench was asked for, for all of its processes alike: they find it in their environment."""

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidegate.spark.session.sessions import LOOPBACK, SparkSettings, prepare_machine

PARALLELISM = 2
DRIVER_MEMORY = "2g"
COLLECTORS = {"serial": "-XX:+UseSerialGC", "g1": "-XX:+UseG1GC"}
_COLLECTOR, _QUICK = "TIDEGATE_BENCH_COLLECTOR", "TIDEGATE_BENCH_QUICK"


def ask(collector: str, quick: bool) -> None:
    """For this process and all that it starts."""
    os.environ[_COLLECTOR] = collector
    os.environ[_QUICK] = str(quick)


def java_option() -> str:
    """Of every engine's JVM, so that what they need of memory can be compared."""
    return COLLECTORS[os.environ[_COLLECTOR]]


def spark(conf: Mapping[str, str] | None = None) -> SparkSettings:
    """For Tidegate, beside what it sets for sessions that it starts."""
    return SparkSettings.local(PARALLELISM, {**_same(), **(conf or {})})


def plain_session(conf: Mapping[str, str]) -> SparkSession:
    """For Structured Streaming: Spark as PySpark starts it. Of what Tidegate sets for its own sessions it gets none."""
    prepare_machine()
    builder = SparkSession.builder.master(f"local[{PARALLELISM}]")
    private = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.ui.enabled": "false"}
    for key, value in {**private, **_same(), **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _same() -> dict[str, str]:
    return {"spark.driver.memory": DRIVER_MEMORY, "spark.driver.extraJavaOptions": java_option()}


def is_quick() -> bool:
    return os.environ[_QUICK] == str(True)


def repetitions(warm_ups: int, measured: int) -> tuple[int, int]:
    """How many epochs warm up, and how many count: a quarter in a quick run, and three at least."""
    if not is_quick():
        return warm_ups, measured
    return max(warm_ups // 2, 1), max(measured // 4, 3)
