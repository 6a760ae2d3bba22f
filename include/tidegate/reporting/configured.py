"""Which notifiers and meters the environment asks for.

`TIDEGATE_WEBHOOK_URL`, `TIDEGATE_WEBHOOK_SECRET`, or in Airflow's tasks its connection `tidegate_webhook` (type HTTP,
its password is the secret); `TIDEGATE_PAGES_URL`, or Airflow's own address. OpenLineage and OpenTelemetry are
configured as their clients are. What is configured wrongly is said in the log and left out: no checkpoint fails because
of it.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStore, Clock, Meter, Notifier, ReadableStorage
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.reporting.webhook import Webhook

if TYPE_CHECKING:
    from airflow.sdk import Connection

log = logging.getLogger("tidegate")

Opened = TypeVar("Opened")

CONNECTION_ID = "tidegate_webhook"
_PREFIX = "/tidegate"


def configured_notifiers(
    graph: Graph,
    store: CheckpointStore,
    storage: ReadableStorage,
    clock: Clock,
    environment: Mapping[str, str] | None = None,
) -> list[Notifier]:
    """Raises nothing."""
    env = os.environ if environment is None else environment

    def webhook() -> Notifier | None:
        found = _webhook(env)
        return None if found is None else Webhook(*found, pages_url(env), clock.now)

    def openlineage() -> Notifier | None:
        if not has_openlineage(env):
            return None
        from tidegate.reporting.openlineage import OpenLineage  # its client takes a second to import

        return OpenLineage(graph, store, storage)

    return _those_that_open({"The webhook": webhook, "OpenLineage": openlineage})


def configured_meters(environment: Mapping[str, str] | None = None) -> list[Meter]:
    """Raises nothing."""

    def opentelemetry() -> Meter | None:
        if not has_opentelemetry(os.environ if environment is None else environment):
            return None
        from tidegate.reporting.opentelemetry import opentelemetry_meter  # its SDK takes half a second to import

        return opentelemetry_meter()

    return _those_that_open({"OpenTelemetry": opentelemetry})


def _those_that_open(asked: Mapping[str, Callable[[], Opened | None]]) -> list[Opened]:
    found = []
    for what, open_ in asked.items():
        try:
            found.append(open_())
        except ConfigurationError as error:  # its text holds no secret; that of another library may
            log.error("%s is left out: %s", what, error)
        except Exception as error:
            log.error("%s is left out: its configuration led to %s.", what, type(error).__name__)
    return [each for each in found if each is not None]


def has_opentelemetry(env: Mapping[str, str]) -> bool:
    """Whether somebody asked for metrics: without that, its SDK would look for a collector on this machine."""
    exporter = env.get("OTEL_METRICS_EXPORTER", "").strip().lower()
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return False
    return bool(exporter or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))


def pages_url(environment: Mapping[str, str] | None = None) -> str | None:
    """Where the Checkpoints pages are, None if nothing says so."""
    env = os.environ if environment is None else environment
    if given := env.get("TIDEGATE_PAGES_URL"):
        return given.rstrip("/")
    airflow = env.get("AIRFLOW__API__BASE_URL")
    return None if not airflow else airflow.rstrip("/") + _PREFIX


def has_openlineage(env: Mapping[str, str]) -> bool:
    """Whether its client would find a transport. Without one it prints every event."""
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if env.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in env):
        return True
    files = (env.get("OPENLINEAGE_CONFIG"), "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    return any(file is not None and Path(file).is_file() for file in files)


def _webhook(env: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Its address and its secret."""
    if url := env.get("TIDEGATE_WEBHOOK_URL"):
        return url, env.get("TIDEGATE_WEBHOOK_SECRET") or None
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    in_task = getattr(runner, "SUPERVISOR_COMMS", None) is not None
    if not in_task and f"AIRFLOW_CONN_{CONNECTION_ID.upper()}" not in env:
        return None
    connection = _airflow_connection()
    return None if connection is None else (_address(connection), connection.password or None)


def _airflow_connection() -> "Connection | None":
    # Imported only where there is a sign of Airflow: it takes seconds.
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        found: Connection = Connection.get(CONNECTION_ID)
        return found
    except AirflowNotFoundException:
        return None


def _address(connection: "Connection") -> str:
    """As Airflow's HTTP hook reads a connection: the host may hold all of the address, or its parts are in fields."""
    host = connection.host or ""
    if "://" in host:
        return str(host)
    scheme = connection.schema or ("https" if connection.conn_type == "https" else "http")
    port = f":{connection.port}" if connection.port else ""
    name, _, path = host.partition("/")
    return f"{scheme}://{name}{port}" + (f"/{path}" if path else "")
