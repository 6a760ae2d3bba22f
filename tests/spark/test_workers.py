"""What a Python worker of a local session costs before it does anything."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from public_directories import public_directory
from pyspark.sql import SparkSession

import tidegate

pytestmark = pytest.mark.spark


def test_workers_of_a_local_session_use_the_installed_packages_and_share_the_imports(spark: SparkSession) -> None:
    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import gc
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        found = {name: [str(sys.modules[name].__file__)] for name in ("tidegate", "pyspark")}
        pool = pa.default_memory_pool().backend_name
        yield pa.RecordBatch.from_pydict({**found, "shared": [gc.get_freeze_count() > 10_000], "pool": [pool]})

    columns = "tidegate string, pyspark string, shared boolean, pool string"
    answer = spark.range(0, 1, 1, 1).mapInArrow(where, columns).toArrow()

    wanted = {"tidegate": tidegate.__file__, "pyspark": pyspark.__file__, "shared": True, "pool": "system"}
    assert answer.to_pylist() == [wanted]


def test_a_report_does_not_bring_pandas_into_a_worker() -> None:
    program = """
import sys
from tidegate.dataflow.reports import Report
from tidegate.spark.executor.report_rows import decode_reports, encode_reports
report = Report("carriers", 3, (), {"rows_in": 7})
rows = encode_reports(3, [report])
print("pandas" in sys.modules)
print(decode_reports(rows["subtask"][0].as_py(), rows["reports"][0].as_py()) == [report])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == ["False", "True"]


#: As a JVM starts it, but with little patience. At its end it says what is left of its timer.
DAEMON = """
import atexit, signal, sys
from tidegate.spark.executor.session_daemon import main
atexit.register(lambda: print(signal.getitimer(signal.ITIMER_REAL), file=sys.stderr))
main(idle=1.0)
"""


def environment_of(directory: Path) -> dict[str, str]:
    ours = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(directory)}
    return {**os.environ, **ours}


def test_the_daemon_of_a_session_ends_when_it_has_had_no_worker_for_a_while() -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with (
        public_directory("tidegate-daemon-") as short,  # a socket's path may have a hundred characters
        subprocess.Popen([sys.executable, "-c", DAEMON], env=environment_of(short), **pipes) as daemon,
    ):
        told, said = daemon.stdout, daemon.stderr
        assert told is not None
        assert said is not None
        path = told.read(int.from_bytes(told.read(4), "big")).decode()
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(path)
            assert int.from_bytes(worker.recv(4), "big") > 0  # the worker's process, which waits for what it is to do
            time.sleep(2.5)
            assert daemon.poll() is None
        assert daemon.wait(60) == 1
        assert not Path(path).exists()
        assert "(0.0, 0.0)" in said.read().decode()
