"""Stopping Spark under a thread that waits for it, in a process of its own: it ends the session for good."""

import subprocess
import sys

import pytest
from sizes import later

#: Waits for a job that takes a minute; SIGTERM comes when the job runs, and its handler stops Spark as `on_kill` does.
HANG = """
import os, signal, threading, time
from tidegate.airflow.running_region import stop_spark
from tidegate.spark.session.sessions import SparkSettings, open_session

session = open_session({settings})
stopping = []

def stop(signum, frame):
    stopping.append(time.monotonic())
    stop_spark(session)

def hang(batches):
    import time
    time.sleep(60)
    yield from batches

signal.signal(signal.SIGTERM, stop)
session.range(1).collect()  # so that the job below runs when the signal comes
threading.Timer(4, os.kill, (os.getpid(), signal.SIGTERM)).start()
try:
    session.range(1).mapInArrow(hang, "id bigint").collect()
except Exception as error:
    seconds = time.monotonic() - stopping[0]
    assert seconds < 15, seconds
    print("stopped:", type(error).__name__)
"""


@pytest.mark.spark
@pytest.mark.parametrize("kind", [later("classic"), "connect"])
def test_a_thread_that_waits_for_a_spark_job_gets_an_error_when_spark_is_stopped(kind, request):
    settings = (
        "SparkSettings.local(1)"
        if kind == "classic"
        else f"SparkSettings.connect({request.getfixturevalue('connect_server')!r})"
    )
    script = HANG.replace("{settings}", settings)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "stopped:" in ended.stdout
