"""The notifiers and meters that the environment configures.

The webhook is configured by `TIDEGATE_WEBHOOK_URL` and `TIDEGATE_WEBHOOK_SECRET`, or in Airflow's tasks by the
connection `tidegate_webhook` (type HTTP, its password is the secret). The address of the pages is `TIDEGATE_PAGES_URL`,
or Airflow's own. OpenLineage and OpenTelemetry are configured as their clients are. A receiver whose configuration is
wrong is logged and left out: no checkpoint fails because of it.
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
    """Return the configured notifiers. An error in the configuration is logged, not raised."""
    env = os.environ if environment is None else environment

    def webhook() -> Notifier | None:
        address = _webhook(env)
        return None if address is None else Webhook(*address, pages_url(env), clock.now)

    def openlineage() -> Notifier | None:
        if not has_openlineage(env):
            return None
        from tidegate.reporting.openlineage import OpenLineage  # its client takes a second to import

        return OpenLineage(graph, store, storage)

    return _those_that_open({"The webhook": webhook, "OpenLineage": openlineage})


def configured_meters(environment: Mapping[str, str] | None = None) -> list[Meter]:
    """Return the configured meters. An error in the configuration is logged, not raised."""

    def opentelemetry() -> Meter | None:
        if not has_opentelemetry(os.environ if environment is None else environment):
            return None
        from tidegate.reporting.opentelemetry import opentelemetry_meter  # its SDK takes half a second to import

        return opentelemetry_meter()

    return _those_that_open({"OpenTelemetry": opentelemetry})


def _those_that_open(openers: Mapping[str, Callable[[], Opened | None]]) -> list[Opened]:
    opened = []
    for name, open_ in openers.items():
        try:
            opened.append(open_())
        except ConfigurationError as error:  # its text holds no secret; another library's text may
            log.error("%s is left out: %s", name, error)
        except Exception as error:
            log.error("%s is left out: its configuration led to %s.", name, type(error).__name__)
    return [receiver for receiver in opened if receiver is not None]


def has_opentelemetry(env: Mapping[str, str]) -> bool:
    """Whether the environment requests metrics. Without this check, the SDK would connect to a collector on this
    machine.
    """
    exporter = env.get("OTEL_METRICS_EXPORTER", "").strip().lower()
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return False
    return bool(exporter or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))


def pages_url(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the address of the Checkpoints pages; None if it is not configured."""
    env = os.environ if environment is None else environment
    if given := env.get("TIDEGATE_PAGES_URL"):
        return given.rstrip("/")
    airflow = env.get("AIRFLOW__API__BASE_URL")
    return None if not airflow else airflow.rstrip("/") + _PREFIX


def has_openlineage(env: Mapping[str, str]) -> bool:
    """Whether OpenLineage's client would find a transport. Without one it prints every event."""
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if env.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in env):
        return True
    files = (env.get("OPENLINEAGE_CONFIG"), "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    return any(file is not None and Path(file).is_file() for file in files)


def _webhook(env: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Return the webhook's address and secret."""
    if url := env.get("TIDEGATE_WEBHOOK_URL"):
        return url, env.get("TIDEGATE_WEBHOOK_SECRET") or None
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    in_task = getattr(runner, "SUPERVISOR_COMMS", None) is not None
    if not in_task and f"AIRFLOW_CONN_{CONNECTION_ID.upper()}" not in env:
        return None
    connection = _airflow_connection()
    return None if connection is None else (_address(connection), connection.password or None)


def _airflow_connection() -> "Connection | None":
    # Imported only if Airflow is in use: the import takes seconds.
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        connection: Connection = Connection.get(CONNECTION_ID)
        return connection
    except AirflowNotFoundException:
        return None


def _address(connection: "Connection") -> str:
    """Read a connection as Airflow's HTTP hook does: the host holds the whole address, or the fields hold its parts."""
    host = connection.host or ""
    if "://" in host:
        return str(host)
    scheme = connection.schema or ("https" if connection.conn_type == "https" else "http")
    port = f":{connection.port}" if connection.port else ""
    name, _, path = host.partition("/")
    return f"{scheme}://{name}{port}" + (f"/{path}" if path else "")
