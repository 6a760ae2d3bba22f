"""A whole Airflow and its Postgres on this machine: started, watched until healthy, found again, stopped.

Everything listens on loopback. The four components of Airflow lead sessions of their own, noted in a file, so that
another process can stop them, also after the one that started them was killed. What runs on the stack is the caller's.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.demo.airflow_api import AirflowApi
from tidegate.demo.airflow_environment import Places, Secrets, airflow_environment
from tidegate.demo.processes import Session, read_sessions, start_session, stop_sessions, write_sessions
from tidegate.postgres.embedded import EmbeddedPostgres
from tidegate.postgres.migrate import upgrade
from tidegate.protocol.errors import CheckpointError

COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    # The log servers of these two listen on every interface; the API server reads the log files itself.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
HEALTHY = {"metadatabase", "scheduler", "triggerer", "dag_processor"}
USER = "admin"
Report = Callable[[str], None]


class StackError(CheckpointError):
    """A part of the local stack did not start, or stopped by itself; the message names its log."""


class LocalStack:
    """Airflow on `dags` and `plugins`, with everything it writes below `home`.

    `environment` is added to the components' and so to every task's. Connections: `tidegate_default` to the embedded
    Postgres, `spark_default` to Spark inside the task's own process tree. Use as a context manager, or `start`/`stop`.
    """

    def __init__(
        self,
        home: Path,
        dags: Path,
        plugins: Path,
        environment: Mapping[str, str] | None = None,
        parallelism: int = 4,
    ) -> None:
        self.home = home.resolve()
        self.dags = dags.resolve()
        self.plugins = plugins.resolve()
        self.parallelism = parallelism
        self._extra = dict(environment or {})
        self._postgres = EmbeddedPostgres(self.home / "postgres")
        self._children: list[subprocess.Popen[bytes]] = []

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
    def _noted(self) -> Path:
        return self.home / "sessions.json"

    def sessions(self) -> list[Session]:
        """The components' sessions, whoever started them; empty when the stack was never started or was stopped."""
        return read_sessions(self._noted)

    def is_running(self) -> bool:
        return any(session.leader() for session in self.sessions())

    @property
    def url(self) -> str:
        """Where Airflow answers, for the browser and the API. Raises `StackError` when it was never started."""
        return f"http://127.0.0.1:{self._secrets().port}"

    def api(self) -> AirflowApi:
        return AirflowApi(self.url, USER, json.loads(self.password_file.read_text())[USER])

    @property
    def database_url(self) -> str:
        """Tidegate's database, password included. Raises `StoreUnavailableError` while the stack does not run."""
        return self._postgres.url("tidegate")

    def environment(self) -> dict[str, str]:
        """What the components and tasks run with."""
        places = Places(self.home / "airflow", self.dags, self.plugins, self.password_file)
        return airflow_environment(
            os.environ,
            places,
            self._secrets(),
            self._postgres.url("airflow"),
            self.database_url,
            self.parallelism,
            self._extra,
        )

    # -- life
    def start(self, report: Report = lambda message: None) -> None:
        """Start everything and return when Airflow is healthy. Raises `StackError`, leaving nothing running."""
        self.stop()
        self.logs.mkdir(parents=True, exist_ok=True)
        self._write_secrets()
        try:
            report("Starting Postgres")
            self._start_postgres()
            report("Creating Airflow's tables")
            self._run("db", "migrate")
            report("Starting Airflow: API server, scheduler, triggerer and DAG processor")
            self._start_components()
            self._wait_until_healthy(report)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every process of the stack, whoever started it; what it wrote stays. Not running is fine."""
        stop_sessions(self.sessions())
        for child in self._children:
            child.wait()
        self._children.clear()
        self._noted.unlink(missing_ok=True)
        if self._postgres.data_dir.exists():
            self._postgres.stop()

    def remove(self) -> None:
        """Stop it and remove everything it ever wrote."""
        self.stop()
        self._postgres.remove()
        shutil.rmtree(self.home, ignore_errors=True)

    # -- how
    def _start_postgres(self) -> None:
        self._postgres.start()
        for database in ("airflow", "tidegate"):
            self._postgres.create_database(database)
        upgrade(self.database_url)

    def _run(self, *command: str) -> None:
        """An Airflow command that ends by itself."""
        log = self.logs / f"{command[0]}.log"
        with log.open("ab") as output:
            arguments = [sys.executable, "-m", "airflow", *command]
            ended = subprocess.run(arguments, env=self.environment(), stdout=output, stderr=output, cwd=self.home)
        if ended.returncode != 0:
            raise StackError(f"`airflow {' '.join(command)}` failed. {_tail(log)}")

    def _start_components(self) -> None:
        environment = self.environment()
        sessions: list[Session] = []
        for name, arguments in COMPONENTS.items():
            command = [sys.executable, "-m", "airflow", *arguments]
            session, child = start_session(name, command, environment, self.logs / f"{name}.log", self.home)
            sessions.append(session)
            self._children.append(child)
            write_sessions(self._noted, sessions)  # after each one: a crash in between leaves none unknown

    def _wait_until_healthy(self, report: Report, timeout: float = 180.0) -> None:
        started, seen = time.monotonic(), ""
        with closing(self.api()) as api:
            while True:
                health = api.health()
                if all(health.get(component) == "healthy" for component in HEALTHY):
                    return
                if (now := ", ".join(sorted(c for c in HEALTHY if health.get(c) == "healthy"))) != seen:
                    seen = now
                    report(f"Healthy: {now}")
                if dead := [session.name for session in self.sessions() if session.leader() is None]:
                    raise StackError(f"Airflow's {dead[0]} ended by itself. {_tail(self.logs / f'{dead[0]}.log')}")
                if time.monotonic() - started > timeout:
                    raise StackError(f"Airflow is not healthy after {timeout:.0f} s: {health}. Its logs: {self.logs}")
                time.sleep(0.3)

    def _secrets(self) -> Secrets:
        if not self._secrets_file.exists():
            raise StackError(f"No stack was started in {self.home}. Run `make up` first.")
        return Secrets(**json.loads(self._secrets_file.read_text()))

    def _write_secrets(self) -> None:
        """Random ones on the first start, kept afterwards, so that what was encrypted stays readable; a port that is free."""
        if self._secrets_file.exists():
            kept = self._secrets()
        else:
            fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode()
            kept = Secrets(fernet, secrets.token_urlsafe(32), secrets.token_urlsafe(64), 0)
            _write_private(self.password_file, json.dumps({USER: secrets.token_urlsafe(12)}))
        _write_private(self._secrets_file, json.dumps(asdict(replace(kept, port=_free_port(kept.port)))))


def _write_private(path: Path, content: str) -> None:
    """Readable by its owner only, from the moment it exists."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)


def _free_port(wanted: int) -> int:
    """The wanted one if nobody has it, so that a bookmark stays good; any other if somebody has, or if it is 0."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tail(log: Path, lines: int = 15) -> str:
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"The end of {log}:", *text])
