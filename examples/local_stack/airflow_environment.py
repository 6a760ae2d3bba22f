"""The settings of a local Airflow, as environment variables. Pure functions, which are easy to test."""

import json
import sys
from collections.abc import Mapping
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from local_stack.secrets_file import Secrets


@dataclass(frozen=True, slots=True)
class Directories:
    """Directories and files of a local Airflow."""

    airflow_home: Path
    dags: Path
    plugins: Path
    password_file: Path


#: Limits for detecting a killed process, in seconds. The supervisor restarts it within a few seconds. Airflow's own
#: defaults are for distributed machines, and let a task without a scheduler wait for five minutes.
_RECOVERY = {
    # A scheduler that is silent for this long counts as ended, and the next one schedules its tasks again.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    # A task that is silent for this long counts as ended. An API server needs less time to restart on a busy machine.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    # Heartbeats are five seconds apart, so a task survives if the API server is away for a minute.
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "12",
}


def airflow_environment(
    inherited: Mapping[str, str],
    directories: Directories,
    secrets: Secrets,
    metadata_url: str,
    tidegate_url: str,
    parallelism: int,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the whole environment of the components. Airflow's own variables are set here or in `extra`, never
    inherited.

    The port appears three times, because tasks reach the API server by `EXECUTION_API_SERVER_URL`, which does not
    follow `API__PORT`. The idle sleep bounds the time that a task waits for the one before it. `_RECOVERY` is for
    killed processes.
    """
    url = f"http://127.0.0.1:{secrets.port}"
    ours = {
        "AIRFLOW_HOME": directories.airflow_home,
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": secrets.port,
        "AIRFLOW__API__SECRET_KEY": secrets.secret_key,
        "AIRFLOW__API__WORKERS": 1,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.jwt_secret,
        "AIRFLOW__CORE__DAGS_FOLDER": directories.dags,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__FERNET_KEY": secrets.fernet_key,
        "AIRFLOW__CORE__LOAD_EXAMPLES": False,
        "AIRFLOW__CORE__PARALLELISM": parallelism,
        "AIRFLOW__CORE__PLUGINS_FOLDER": directories.plugins,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": directories.password_file,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata_url,
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.1,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_TIDEGATE_DEFAULT": postgres_connection(tidegate_url),
        # The interpreter's own scripts come first, so that tasks start programs of this installation.
        "PATH": f"{Path(sys.executable).parent}:{inherited.get('PATH', '')}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    kept = {name: value for name, value in inherited.items() if not name.startswith("AIRFLOW")}
    return kept | _RECOVERY | {name: str(value) for name, value in ours.items()} | dict(extra)


def users_of(environment: Mapping[str, str], configuration: Path) -> list[str]:
    """Return the names of the users who may log in, as Airflow reads them: from its environment, else from its file."""
    listed = environment.get("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS")
    if listed is None:
        file = RawConfigParser()
        file.read(configuration)
        listed = file.get("core", "simple_auth_manager_users", fallback="admin:admin")
    return [name for entry in listed.split(",") if (name := entry.partition(":")[0].strip())]


def postgres_connection(url: str) -> str:
    """Return a database URL as an Airflow connection in JSON form, in which no character needs escaping."""
    parts = urlsplit(url)
    return json.dumps(
        {
            "conn_type": "postgres",
            "host": parts.hostname,
            "port": parts.port,
            "login": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "schema": parts.path.lstrip("/"),
        }
    )
