"""The start of the JVM for this process's own session, with the output of the JVM and its Python workers in a file.

Spark prints a stack trace for every failed attempt of a task, and for a worker that is no longer needed. A command or
an Airflow task reports the problem once, in its own words, and names the file.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pyspark import SparkConf, SparkContext

from tidegate.settings import Settings
from tidegate.settings.shortcuts import Shortcut

#: The size in bytes from which the next session begins a new file. The previous one is kept.
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
    """Start the JVM, unless this process has one or Spark must start it. `conf` are the settings that it needs from the
    start."""
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
    """Return a sentence that names the log file; empty if there is none."""
    return f"Spark's own messages are in {_log}. " if _log is not None else ""


def _chosen() -> Path | None:
    """Return the log file: `TIDEGATE_SPARK_LOG`, by default `.tidegate/spark.log` in the project's home; None for `-`,
    the error output."""
    given = os.environ.get("TIDEGATE_SPARK_LOG")
    home = Settings.from_environment().home
    return None if given == "-" else home / (given or ".tidegate/spark.log")


def _opened(path: Path | None) -> int | None:
    """Return a descriptor of the log file. If the file cannot be written, messages go to this process's own output."""
    if path is None:
        return None
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGE:
            path.replace(path.with_name(f"{path.name}.1"))
        # Messages may quote data, so other users must not read them.
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return None
