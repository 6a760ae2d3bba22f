"""A Spark Connect server on this machine or as the driver of a cluster, with the settings of sessions that Tidegate
starts.

    SPARK_CONNECT_AUTHENTICATE_TOKEN=… python -m tidegate.spark.session.connect_server --port 15002 --directory DIR

It listens on loopback and refuses every client without the token, which is passed in the environment because every user
can read command lines. It serves programs that run `tidegate`, and has no part of a pipeline.
"""

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pyspark

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.spark.session.sessions import LOOPBACK, prepare_machine, settings_of

#: The variable in which Spark expects the token, if no setting has it.
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
#: The name of the private directory below the given one.
_PRIVATE = "spark-connect-server"
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


def become_server(master: str, port: int, directory: Path, conf: Sequence[str] = ()) -> NoReturn:
    """Replace this process by the server. Its working files lie in a directory of its own below `directory`, which
    other users cannot read. `conf` are settings of Spark, as `name=value`. Raise `ConfigurationError` without a token
    or Java."""
    if not os.environ.get(TOKEN):
        raise ConfigurationError(f"The Spark Connect server was not started: {TOKEN} is not set. Give it a secret.")
    prepare_machine()
    private = directory.absolute() / _PRIVATE
    shutil.rmtree(private, ignore_errors=True)  # left by a killed server
    private.mkdir(mode=0o700, parents=True)
    ours = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "WARN",  # it runs for months, and would log every Spark job
        **settings_of(master, private),
    }
    if master.startswith("local"):  # elsewhere executors may not have the library
        ours["spark.python.daemon.module"] = "tidegate.spark.executor.session_daemon"
    given = [*(f"{name}={value}" for name, value in ours.items()), *conf]
    command = [str(Path(pyspark.__path__[0]) / "bin" / "spark-submit"), "--class", _CLASS]
    command += ["--name", "tidegate", "--master", master, *(part for setting in given for part in ("--conf", setting))]
    os.chdir(private)
    os.execv(command[0], [*command, "spark-internal"])


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default="local[2]", help="where Spark tasks run (default: local[2])")
    parser.add_argument("--port", type=int, required=True, help="on loopback")
    parser.add_argument("--directory", type=Path, required=True, help="for the working files of the server")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    return parser


def main() -> None:
    options = parser().parse_args()
    become_server(options.master, options.port, options.directory, options.conf)


if __name__ == "__main__":
    main()
