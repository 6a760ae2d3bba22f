"""A stack whose DAG runs share one Spark Connect server: closed to others, started again when it is killed."""

import json
import os
import stat
from unittest import mock

import psutil
import pytest
from kept_stacks import kept_stack, wait_until

from local_stack.processes import is_alive
from local_stack.secrets_file import Secrets, read_secrets, write_secrets
from local_stack.spark_server import SPARK, server_connection, server_environment
from tidegate.protocol.facts.errors import SparkUnavailableError
from tidegate.spark.session.sessions import SparkSettings, open_session


@pytest.fixture(scope="module")
def kept():
    with kept_stack(spark_server=True) as kept:
        yield kept


def address_of(stack, token):
    port = read_secrets(stack.home / "secrets.json").spark_port
    return f"sc://localhost:{port}/;token={token}"


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@mock.patch.dict(os.environ)  # PySpark makes Connect the kind of session of this process, and of what it starts
class TestRunning:
    def test_dag_runs_share_it_and_start_no_spark_of_their_own(self, kept):
        server = kept.component(SPARK)
        assert server.name() == "java"
        run_id = kept.begin(held=True)
        assert not [child for child in kept.driver().children(recursive=True) if child.name() == "java"]
        assert kept.python_workers()
        assert kept.finish(run_id)["snapshot"] == 1
        assert kept.component(SPARK) == server

    def test_it_listens_on_loopback_and_takes_nobody_without_its_token(self, kept):
        heard = {c.laddr.ip for c in kept.component(SPARK).net_connections("tcp") if c.status == psutil.CONN_LISTEN}
        assert heard
        assert {address.removeprefix("::ffff:") for address in heard} <= {"127.0.0.1", "::1"}
        token = read_secrets(kept.stack.home / "secrets.json").spark_token
        for wrong in ("", "wrong", token[:-1]):
            with pytest.raises(SparkUnavailableError, match="cannot be used") as refused:
                open_session(SparkSettings(remote=address_of(kept.stack, wrong)))
            assert not wrong or wrong not in str(refused.value)
        session = open_session(SparkSettings(remote=address_of(kept.stack, token)))
        assert session.range(3).count() == 3
        session.stop()
        written = "".join(path.read_text(errors="replace") for path in kept.stack.logs.iterdir())
        assert token not in written
        commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        assert commands
        assert not [command for command in commands if token in " ".join(command)]

    def test_a_session_that_did_nothing_for_long_gets_another_python_daemon(self, kept):
        """Spark ends idle workers after a minute, and the daemon ends two minutes after the last of them."""
        token = read_secrets(kept.stack.home / "secrets.json").spark_token
        session = open_session(SparkSettings(remote=address_of(kept.stack, token)))

        def daemons():
            return {child for child in kept.component(SPARK).children() if "python" in child.name()}

        def count():
            return session.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count()

        assert count() == 4
        before = daemons()
        assert before
        wait_until(lambda: not daemons(), "the daemons have ended")
        assert count() == 4
        assert daemons()
        session.stop()

    def test_it_is_started_again_and_the_retry_resumes_the_checkpoint(self, kept):
        run_id = kept.begin(held=True)
        killed, workers = kept.component(SPARK), kept.python_workers()
        killed.kill()
        kept.came_back(killed)
        wait_until(lambda: not [worker for worker in workers if is_alive(worker)], "its workers have ended")
        assert kept.finish(run_id)["snapshot"] > 1

    def test_a_stack_that_is_stopped_leaves_nothing_of_it(self, kept):
        server = kept.component(SPARK)
        below = [server, *server.children(recursive=True)]
        kept.stack.stop()
        assert not [process for process in below if is_alive(process)]


def test_it_is_given_nothing_of_airflows():
    given = server_environment({"AIRFLOW__CORE__FERNET_KEY": "x", "AIRFLOW_CONN_A": "y", "PATH": "p"}, "hidden")
    assert given == {"PATH": "p", "SPARK_CONNECT_AUTHENTICATE_TOKEN": "hidden"}
    assert json.loads(server_connection(15002, "hidden")) == {
        "conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": "hidden",
    }  # fmt: skip


def test_secrets_are_made_once_and_kept(tmp_path):
    file = tmp_path / "secrets.json"
    write_secrets(file)
    first = read_secrets(file)
    assert first.spark_token
    assert len({first.port, first.spark_port, 0}) == 3
    write_secrets(file)
    assert read_secrets(file) == first
    file.unlink()
    write_secrets(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_secrets(file).spark_token != first.spark_token
    assert isinstance(read_secrets(file), Secrets)
