"""Turns an Airflow connection into the Spark that a step runs on.

Connection types of the Spark provider: `spark` (host is a master: `local[2]`, `spark://host` with a port, `yarn`,
`k8s://https://host`) and `spark_connect`. Extras whose name starts with `spark.` become Spark configuration. The driver
is the Airflow task itself, so deploy mode is always `client`.
"""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from tidegate.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from tidegate.spark.session.sessions import SparkSettings

#: The provider's own extras that mean something to a driver inside the task.
_EXTRAS = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
}


def spark_settings(conn_id: str) -> "SparkSettings":
    """Raises `ConfigurationError` if the connection is missing or cannot be used;
    it never falls back to another Spark."""
    # pyspark is heavy, and DAG files import this module.
    from tidegate.spark.session.sessions import SparkSettings

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"Airflow has no connection {conn_id!r}, which says where Spark runs. Add one of type Spark or Spark "
            "Connect, for example "
            f'AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "spark", "host": "local[2]"}}\'.'
        ) from error
    conf = _conf(conn_id, connection.extra_dejson)
    if connection.conn_type == "spark_connect":
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        return SparkSettings.connect(SparkConnectHook(conn_id).get_connection_url(), conf)
    if connection.conn_type == "spark":
        return SparkSettings.cluster(_master(conn_id, connection.host, connection.port), conf)
    raise ConfigurationError(
        f"Connection {conn_id!r} is of type {connection.conn_type!r}. A pipeline runs on a connection of type 'spark' "
        "or 'spark_connect'."
    )


def _master(conn_id: str, host: str | None, port: int | None) -> str:
    if not host:
        raise ConfigurationError(
            f"Connection {conn_id!r} names no host. Give a Spark master: local[2], spark://host with a port, yarn or "
            "k8s://…"
        )
    if port is None:
        return host
    return f"{host}:{port}" if "://" in host else f"spark://{host}:{port}"


def _conf(conn_id: str, extras: dict[str, Any]) -> dict[str, str]:
    if extras.get("deploy-mode", "client") != "client":
        raise ConfigurationError(
            f"Connection {conn_id!r} asks for deploy mode {extras['deploy-mode']!r}. The driver is the Airflow task, "
            "so it must be 'client'; to keep the driver off the worker, use a Spark Connect connection."
        )
    own = {name: str(value) for name, value in extras.items() if name.startswith("spark.")}
    return {_EXTRAS[name]: str(value) for name, value in extras.items() if name in _EXTRAS and value} | own
