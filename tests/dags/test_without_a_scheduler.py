"""`airflow dags test` and `dag.test()`: a whole DAG run in one process and one thread, with real Spark."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from live_airflow import PROJECT, alive_after

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

#: Seconds for a run on a busy machine. One that waits for itself would take all of them.
LONGEST = 300
LIVE = PROJECT / "tests/support/live_dags/small.py"
COMMAND = (sys.executable, "-m", "airflow", "dags", "test", "doomed")
FUNCTION = (sys.executable, "-c", f"import runpy; runpy.run_path({str(LIVE)!r})['doomed'].test()")


class Place:
    """A home of the pipeline's own, and what was started in it."""

    def __init__(self, home, environment, store):
        self.home, self.environment, self.store = home, environment, store
        self.log, self.processes = home / "log", []

    def start(self, command, name):
        """In a session of its own, with something to read."""
        landing = self.home / "landing/doomed"
        landing.mkdir(parents=True, exist_ok=True)
        landing.joinpath(f"{name}.json").write_text('{"k": "a", "n": 1}')
        with self.log.open("w") as output:
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.home, stdout=output, stderr=output, start_new_session=True
            )
        self.processes.append(process)
        return process

    def said(self):
        return self.log.read_text()[-3000:]

    def newest(self):
        return self.store.history("doomed", 1)[0]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """The environment of an Airflow that has a database, and nothing that runs."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    environment |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(LIVE.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
    return environment


@pytest.fixture
def place(airflow, tmp_path, postgres_url, store):
    """Nothing that was started may be left."""
    own = {
        "TIDEGATE_CACHE": str(tmp_path / "cache"),
        "TIDEGATE_DATABASE_URL": postgres_url,
        "TIDEGATE_HOME": str(tmp_path),
    }
    place = Place(tmp_path, airflow | own, store)
    yield place
    left = [one for one in psutil.process_iter() if _session(one) in {process.pid for process in place.processes}]
    alive = alive_after(left)  # the JVM ends when it finds its pipe closed
    for one in alive:
        one.kill()
    assert alive == []


def _session(process):
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


@pytest.mark.long
def test_a_run_completes(place):
    assert place.start(COMMAND, "whole").wait(LONGEST) == 0, place.said()
    assert place.newest().status is Status.COMPLETED, place.said()


@pytest.mark.long
@pytest.mark.parametrize(("command", "sent"), [(COMMAND, signal.SIGINT), (FUNCTION, signal.SIGTERM)])
def test_an_interrupt_ends_it_and_its_checkpoint(place, command, sent):
    place.home.joinpath("doomed.hold").touch()
    process = place.start(command, sent.name)
    deadline = time.monotonic() + LONGEST
    while not place.home.joinpath("doomed.pid").exists():
        assert process.poll() is None, place.said()
        assert time.monotonic() < deadline, place.said()
        time.sleep(0.2)
    if sent is signal.SIGINT:
        os.killpg(process.pid, sent)  # as a terminal does
    else:
        process.send_signal(sent)
    process.wait(LONGEST)
    newest = place.newest()
    assert (newest.status, newest.failure_reason) == (Status.FAILED, FailureReason.TASK_FAILURE), place.said()
