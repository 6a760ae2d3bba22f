"""Turns an Airflow connection into the Spark that a step runs on.

Connection types of the Spark provider are `spark` (host is a master: `local[2]`, `spark://host` with a port, `yarn`,
`k8s://https://host`) and `spark_connect`. They are read here, so that the provider need not be installed. Extras whose
name starts with `spark.` become Spark configuration. The driver is the Airflow task itself, so deploy mode is always
`client`.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from tidegate.protocol.facts.errors import ConfigurationError, MissingConnectionError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from tidegate.spark.session.sessions import SparkSettings

#: The provider's own extras that apply to a driver inside the task.
_EXTRAS = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
}


def spark_settings(conn_id: str) -> "SparkSettings":
    """Return the settings of a connection's Spark. There is no fallback to another Spark.

    Raises:
        MissingConnectionError: If there is no such connection.
        ConfigurationError: If the connection cannot be used.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise MissingConnectionError(
            f"Airflow has no connection {conn_id!r}, which points to Spark. Nothing was started. Add one of type "
            "Spark or Spark Connect, for example "
            f'AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "spark", "host": "local[2]"}}\'. '
            "Then clear the failed task."
        ) from error
    # pyspark is heavy, and DAG files import this module.
    from tidegate.spark.session.sessions import SparkSettings

    conf = _conf(conn_id, connection.extra_dejson)
    if connection.conn_type == "spark_connect":
        return SparkSettings.connect(_remote(conn_id, connection), conf)
    if connection.conn_type == "spark":
        return SparkSettings.cluster(_master(conn_id, connection.host, connection.port), conf)
    raise ConfigurationError(
        f"Connection {conn_id!r} is of type {connection.conn_type!r}, which is not Spark's. Nothing was started. "
        "Change its type to 'spark' or 'spark_connect'."
    )


def _master(conn_id: str, host: str | None, port: int | None) -> str:
    if not host:
        raise ConfigurationError(
            f"Connection {conn_id!r} has no host. Nothing was started. Give a Spark master: local[2], spark://host "
            "with a port, yarn or k8s://…"
        )
    if port is None:
        return host
    return f"{host}:{port}" if "://" in host else f"spark://{host}:{port}"


def _remote(conn_id: str, connection: "Connection") -> str:
    """Return the address of a Spark Connect server in its clients' form: `sc://host:port/;token=…`."""
    host = connection.host or ""
    server = urlsplit(host if "://" in host else f"sc://{host}")
    if not server.netloc or server.path.strip("/"):
        raise ConfigurationError(
            f"Connection {conn_id!r} names no Spark Connect server. Nothing was started. Give its host, "
            "without a path, and its port."
        )
    given = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": connection.extra_dejson.get("use_ssl"),
    }
    options = (f"{name}={quote(str(value), safe='')}" for name, value in given.items() if value not in (None, ""))
    port = f":{connection.port}" if connection.port else ""
    return f"sc://{server.netloc}{port}/;{';'.join(options)}"


def _conf(conn_id: str, extras: dict[str, Any]) -> dict[str, str]:
    if extras.get("deploy-mode", "client") != "client":
        raise ConfigurationError(
            f"Connection {conn_id!r} has deploy mode {extras['deploy-mode']!r}, but the driver is the Airflow task. "
            "Nothing was started. Set it to 'client', or use a Spark Connect connection to keep the driver off the "
            "worker."
        )
    own = {name: str(value) for name, value in extras.items() if name.startswith("spark.")}
    return {_EXTRAS[name]: str(value) for name, value in extras.items() if name in _EXTRAS and value} | own
