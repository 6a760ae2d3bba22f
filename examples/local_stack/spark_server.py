"""A Spark Connect server that keeps running next to Airflow, so that a DAG run does not start a Spark of its own."""

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

#: The server's name among the components of a stack.
SPARK = "spark"
LOOPBACK = "127.0.0.1"


def server_command(port: int, directory: Path) -> list[str]:
    """Return the command that starts the server. It keeps its files below `directory`."""
    module = "tidegate.spark.session.connect_server"
    return [sys.executable, "-m", module, "--port", str(port), "--directory", str(directory)]


def server_environment(inherited: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the server's environment, without Airflow's variables: it runs code from tasks, which must not learn how
    Airflow reaches its database.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith("AIRFLOW")}
    return kept | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}


def server_connection(port: int, token: str) -> str:
    """Return Airflow's connection to the server, as JSON. Its host must be `localhost`: to any other, PySpark sends a
    token only over TLS.
    """
    return json.dumps({"conn_type": "spark_connect", "host": "localhost", "port": port, "password": token})


def takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
