"""A Spark Connect server that stays up beside Airflow, so that a DAG run does not start a Spark of its own."""

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

#: Its name among the components of a stack.
SPARK = "spark"
LOOPBACK = "127.0.0.1"


def server_command(port: int, directory: Path) -> list[str]:
    """What starts the server. It keeps what it needs while it runs below `directory`."""
    module = "tidegate.spark.session.connect_server"
    return [sys.executable, "-m", module, "--port", str(port), "--directory", str(directory)]


def server_environment(inherited: Mapping[str, str], token: str) -> dict[str, str]:
    """Without Airflow's variables: it runs what tasks send it, which need not know how Airflow reaches its database."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("AIRFLOW")}
    return kept | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}


def server_connection(port: int, token: str) -> str:
    """Airflow's connection to it, in JSON. Its host has to be `localhost`: to any other PySpark sends a token by TLS
    only."""
    return json.dumps({"conn_type": "spark_connect", "host": "localhost", "port": port, "password": token})


def takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
