"""The Python daemon of local sessions, which imports the workers' packages once, before workers are forked from it.

Spark's own daemon takes PySpark from a zip without byte code and leaves all other imports to each worker. That costs
seconds of processor time before the first checkpoint of a session, and memory that is not shared. In local mode the
workers' interpreter is the driver's, so the packages installed there can be used. Spark starts this as a module.
"""

import ctypes
import gc
import os
import sys
from importlib import import_module

#: Importing these starts no threads. A fork would lose threads (pyarrow's allocator restores its own).
_SHARED = (
    "pyspark.worker",
    "numpy.ma",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "tidegate.sources.parquet_reading",
    "tidegate.spark.executor.direct_rows",
    "tidegate.spark.executor.numbered",
)

#: glibc's names and numbers for `mallopt`.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def main() -> None:
    prepare()
    fork_workers()


def prepare() -> None:
    """Import the packages that workers share."""
    # Arrow's own allocator keeps memory that a task has freed, some 15 MB in each worker.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    _keep_freed_memory()
    _prefer_installed()
    for name in _SHARED:
        import_module(name)
    gc.collect()
    gc.freeze()  # Spark collects garbage after every task, and would go through all of these objects each time


def fork_workers() -> None:
    """Fork a worker whenever the JVM requests one, until it closes the input."""
    import_module("pyspark.daemon").manager()


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory until `memory.give_back`, because requesting a page again takes some
    microseconds. C libraries other than glibc keep their defaults."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, 64 << 20)
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def _prefer_installed() -> None:
    """Put Spark's zipped copy of PySpark behind the installed one, which is of the same release."""
    zipped = [entry for entry in sys.path if entry.endswith("pyspark.zip")]
    sys.path[:] = [entry for entry in sys.path if entry not in zipped] + zipped


if __name__ == "__main__":
    main()
