"""Starts the JVM of this process's own session, with all that it and its Python workers print in a file.

Spark prints a stack trace for every attempt of a task that fails, and a worker that is no longer needed one of its own.
A command or an Airflow task says once, in its own words, what has happened, and names the file.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pyspark import SparkConf, SparkContext

from tidegate.settings import Settings
from tidegate.settings.shortcuts import Shortcut

#: Bytes from which on a new file is begun with the next session; the one before is kept.
_LARGE = 16 << 20

SHORTCUT = Shortcut(
    "session",
    "pyspark",
    (
        *(f"pyspark:SparkContext.{name}" for name in ("_ensure_initialized", "_gateway", "_jvm")),
        "pyspark.java_gateway:launch_gateway",
    ),
    "Spark's own messages are in the error output",
)

_log: Path | None = None


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start it, unless this process has one, or Spark has to. `conf` is what it needs to know from the start."""
    if not SHORTCUT.is_taken() or SparkContext._gateway is not None:
        return
    from pyspark.java_gateway import launch_gateway

    global _log
    path = _chosen()
    file = _opened(path)
    _log = path if file is not None else None
    try:
        streams: dict[str, Any] = {} if file is None else {"stdout": file, "stderr": file}
        gateway = cast(Any, launch_gateway)(SparkConf().setAll(list(conf.items())), streams)
    finally:
        if file is not None:
            os.close(file)
    SparkContext._ensure_initialized(gateway=gateway)


def where_the_log_is() -> str:
    """A sentence; empty if there is no file."""
    return f"Spark's own messages are in {_log}. " if _log is not None else ""


def _chosen() -> Path | None:
    """`TIDEGATE_SPARK_LOG`, by default `.tidegate/spark.log` in the project's home; `-` for the error output."""
    given = os.environ.get("TIDEGATE_SPARK_LOG")
    home = Settings.from_environment().home
    return None if given == "-" else home / (given or ".tidegate/spark.log")


def _opened(path: Path | None) -> int | None:
    """A descriptor. Where the file cannot be written, messages go where ours go: that stops nothing."""
    if path is None:
        return None
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGE:
            path.replace(path.with_name(f"{path.name}.1"))
        # Messages may quote data: nobody else reads them.
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return None
