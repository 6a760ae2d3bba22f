"""Airflow on this machine, with Postgres and Spark: started, kept running, found again, repaired, stopped.

Everything listens on loopback. A `supervisor` starts Airflow's components and Spark, and restarts any that ends. Their
sessions are written to a file and their environment has the stack's mark, so that another process can stop them, even
after the process that started them was killed. The caller decides which DAGs run on the stack.

    HOME/lock            lock for starts and stops
    HOME/settings.json   settings, for the supervisor
    HOME/secrets.json    secrets of Airflow and Spark, with the ports they listen on
    HOME/password.json   password of the user
    HOME/sessions.json   running processes
    HOME/postgres        embedded Postgres
    HOME/logs            one file for each component
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from local_stack.airflow_api import AirflowApi
from local_stack.airflow_environment import Directories, airflow_environment, users_of
from local_stack.imports import SETTINGS
from local_stack.processes import MARK, Session, belonging, end, read_sessions, start_session, write_sessions
from local_stack.secrets_file import (
    Secrets,
    open_log,
    read_secrets,
    write_passwords,
    write_private,
    write_secrets,
)
from local_stack.spark_server import (
    SPARK,
    server_command,
    server_connection,
    server_environment,
    takes_connections,
)
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.embedded_postgres.turns import turn
from tidegate.postgres.migrate import upgrade
from tidegate.protocol.facts.errors import CheckpointError

COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    # These two's log servers listen on every interface; the API server reads the log files itself.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
HEALTHY = {"metadatabase", "scheduler", "triggerer", "dag_processor"}
SUPERVISOR = "supervisor"
USER = "admin"
#: A client that is stopped or killed in a transaction blocks others that need its rows for at most this long.
DATABASE_SETTINGS = {"idle_in_transaction_session_timeout": "60s", "client_connection_check_interval": "5s"}
#: A component that ends more often than this while the stack starts will not come up.
_TOO_OFTEN = 3
Report = Callable[[str], None]


class StackError(CheckpointError):
    """A part of the local stack did not start, or stopped by itself. The message names its log."""


class LocalStack:
    """Airflow on `dags` and `plugins`, with everything it writes below `home`.

    `environment` is added to that of the components, and so of every task. Connections: `tidegate_default` to the
    embedded Postgres, `spark_default` to Spark inside the task's own process tree, or with `spark_server` to a Spark
    Connect server that stays up with the stack. Use as a context manager, or `start`/`stop`.
    """

    def __init__(
        self,
        home: Path,
        dags: Path,
        plugins: Path,
        environment: Mapping[str, str] | None = None,
        parallelism: int = 4,
        spark_server: bool = False,
    ) -> None:
        self.home = home.resolve()
        self.dags = dags.resolve()
        self.plugins = plugins.resolve()
        self.parallelism = parallelism
        self.spark_server = spark_server
        self._extra = dict(environment or {})
        self.postgres = EmbeddedPostgres(self.home / "postgres")
        self._started: subprocess.Popen[bytes] | None = None

    @classmethod
    def noted_in(cls, home: Path) -> Self:
        """Return the stack that was started in a directory, with its settings."""
        noted = json.loads((home / "settings.json").read_text())
        return cls(
            home,
            Path(noted["dags"]),
            Path(noted["plugins"]),
            noted["environment"],
            noted["parallelism"],
            noted["spark_server"],
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # -- where things are
    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def password_file(self) -> Path:
        return self.home / "password.json"

    @property
    def _secrets_file(self) -> Path:
        return self.home / "secrets.json"

    @property
    def _settings_file(self) -> Path:
        return self.home / "settings.json"

    @property
    def noted(self) -> Path:
        """The file in which the supervisor records the sessions."""
        return self.home / "sessions.json"

    def sessions(self) -> list[Session]:
        """Return the sessions of the supervisor and the components; empty if the stack is not running."""
        return read_sessions(self.noted)

    def is_supervised(self) -> bool:
        """Whether the supervisor is running. Without it, components may still run, but none is restarted."""
        return any(session.name == SUPERVISOR and session.leader() is not None for session in self.sessions())

    @property
    def url(self) -> str:
        """The address of Airflow for the browser and the API; `StackError` if the stack was never started."""
        return f"http://127.0.0.1:{self._secrets().port}"

    def api(self) -> AirflowApi:
        return AirflowApi(self.url, USER, json.loads(self.password_file.read_text())[USER])

    @property
    def database_url(self) -> str:
        """The URL of Tidegate's database with the password; `StoreUnavailableError` while the stack is stopped."""
        return self.postgres.running_url("tidegate")

    def environment(self) -> dict[str, str]:
        """Return the environment of the components and tasks."""
        directories = Directories(self.home / "airflow", self.dags, self.plugins, self.password_file)
        return airflow_environment(
            os.environ,
            directories,
            self._secrets(),
            self.postgres.url("airflow"),
            self.database_url,
            self.parallelism,
            self._spark_connection() | self._extra | {MARK: str(self.home)},
        )

    def _spark_connection(self) -> dict[str, str]:
        current = self._secrets()
        connection = server_connection(current.spark_port, current.spark_token)
        return {"AIRFLOW_CONN_SPARK_DEFAULT": connection} if self.spark_server else {}

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components that the supervisor keeps running."""
        return (*COMPONENTS, SPARK) if self.spark_server else tuple(COMPONENTS)

    def start_component(self, name: str) -> Session:
        if name == SPARK:
            command = server_command(self._secrets().spark_port, self.home / "spark")
            environment = server_environment({**os.environ, MARK: str(self.home)}, self._secrets().spark_token)
        else:
            command, environment = [sys.executable, "-m", "airflow", *COMPONENTS[name]], self.environment()
            write_passwords(self.password_file, users_of(environment, self.home / "airflow" / "airflow.cfg"))
        session, _ = start_session(name, command, environment, self._log(name), self.home)
        return session

    # -- life
    def start(self, report: Report = lambda message: None) -> None:
        """Start all components, or the missing ones, and return when Airflow is healthy.

        A running stack, supervised and with the same settings, is left as it is once it is healthy. Any other is
        stopped and started again.

        Raises:
            StackError: If it does not start. Then nothing is left running.
        """
        with self._turn():
            if self.is_supervised() and self._noted_settings() == self._settings() and self._recovers(report):
                return
            self._stop()
            try:
                self._start(report)
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        """Stop every process of the stack, if there are any, whichever process started them. Its files stay."""
        if self.home.exists():
            with self._turn():
                self._stop()

    def remove(self) -> None:
        """Stop the stack, and remove everything it ever wrote."""
        self.stop()
        self.postgres.remove()
        shutil.rmtree(self.home, ignore_errors=True)

    # -- how
    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the lock, so that starts and stops run one after the other."""
        self.home.mkdir(parents=True, exist_ok=True)
        with turn(self.home / "lock", f"The local stack in {self.home}", patience=600.0):  # a start may take that long
            yield

    def _start(self, report: Report) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        write_secrets(self._secrets_file)
        write_passwords(self.password_file, [USER])
        write_private(self._settings_file, json.dumps(self._settings()))
        configuration = self.home / "airflow" / "config"
        configuration.mkdir(parents=True, exist_ok=True)
        (configuration / "airflow_local_settings.py").write_text(SETTINGS)
        report("Starting Postgres")
        self._start_postgres()
        report("Creating Airflow's tables")
        self._run("db", "migrate")
        report("Starting Airflow: API server, scheduler, triggerer and DAG processor")
        command = [sys.executable, "-m", "local_stack.supervisor", str(self.home)]
        environment = {**os.environ, MARK: str(self.home)}
        session, self._started = start_session(SUPERVISOR, command, environment, self._log(SUPERVISOR), self.home)
        write_sessions(self.noted, [session])
        self._wait_until_healthy(report, 180.0)

    def _stop(self) -> None:
        """Stop the supervisor first, so that it restarts nothing. Processes that only it finds are listed before."""
        listed = belonging(self.sessions(), str(self.home))
        for session in self.sessions():
            if session.name == SUPERVISOR and (supervisor := session.leader()) is not None:
                supervisor.kill()
        end(lambda: [*listed, *belonging(self.sessions(), str(self.home))])
        if self._started is not None:
            self._started.wait()
            self._started = None
        self.noted.unlink(missing_ok=True)
        if self.postgres.data_dir.exists():
            pid = self.postgres.pid()
            server = [process for process in psutil.process_iter() if process.pid == pid]
            self.postgres.stop()
            end(lambda: server)  # it removes its mark a moment before it ends

    def _settings(self) -> dict[str, Any]:
        return {
            "dags": str(self.dags),
            "plugins": str(self.plugins),
            "environment": self._extra,
            "parallelism": self.parallelism,
            "spark_server": self.spark_server,
        }

    def _noted_settings(self) -> Any:
        return json.loads(self._settings_file.read_text()) if self._settings_file.exists() else None

    def _start_postgres(self) -> None:
        self.postgres.start()
        for database in ("airflow", "tidegate"):
            self.postgres.create_database(database, DATABASE_SETTINGS)
        upgrade(self.postgres.url("tidegate"))

    def _run(self, *command: str) -> None:
        """Run an Airflow command that ends by itself."""
        log = self._log(command[0])
        with open_log(log) as output:
            arguments = [sys.executable, "-m", "airflow", *command]
            ended = subprocess.run(arguments, env=self.environment(), stdout=output, stderr=output, cwd=self.home)
        if ended.returncode != 0:
            raise StackError(f"`airflow {' '.join(command)}` failed. {_tail(log)}")

    def _recovers(self, report: Report) -> bool:
        """Whether a running stack is healthy, or becomes so with its supervisor's help."""
        try:
            self._wait_until_healthy(report, 90.0)
        except StackError:
            return False
        return True

    def _wait_until_healthy(self, report: Report, timeout: float) -> None:
        """Wait until every component runs and reports healthy. Airflow counts a killed one as healthy for a while."""
        started, seen = time.monotonic(), ""
        pids: dict[str, set[int]] = {name: set() for name in self.components}
        wanted = HEALTHY | {SPARK} if self.spark_server else HEALTHY
        with closing(self.api()) as api:
            while True:
                health = api.health()
                if self.spark_server and takes_connections(self._secrets().spark_port):
                    health[SPARK] = "healthy"
                healthy = sorted(part for part, state in health.items() if state == "healthy")
                running = {session.name for session in self.sessions() if session.leader() is not None}
                if running >= {SUPERVISOR, *self.components} and wanted <= set(healthy):
                    return
                if (now := ", ".join(healthy)) != seen:
                    seen = now
                    report(f"Healthy: {now}")
                if not self.is_supervised():
                    raise StackError(f"The stack's supervisor has ended. {_tail(self._log(SUPERVISOR))}")
                for session in self.sessions():
                    pids.setdefault(session.name, set()).add(session.pid)
                if again := [name for name, starts in pids.items() if len(starts) > _TOO_OFTEN]:
                    raise StackError(f"{again[0]} keeps ending. {_tail(self._log(again[0]))}")
                if time.monotonic() - started > timeout:
                    raise StackError(f"Airflow is not healthy after {timeout:.0f} s: {health}. Its logs: {self.logs}")
                time.sleep(0.3)

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def _secrets(self) -> Secrets:
        """Return the secrets. Raise `StackError` if the stack was never started."""
        if not self._secrets_file.exists():
            raise StackError(f"No stack was started in {self.home}. Start it with `make up`.")
        return read_secrets(self._secrets_file)


def _tail(log: Path, lines: int = 15) -> str:
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"The end of {log}:", *text])
