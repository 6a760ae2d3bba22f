"""Spark sessions for regions, and their settings: local, standalone or Spark Connect.

A user's own session is used unchanged, except for settings that results depend on. Nothing here depends on the
pipeline.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from warnings import catch_warnings, simplefilter

from pyspark import SparkConf, SparkContext
from pyspark.errors import IllegalArgumentException
from pyspark.errors.exceptions import captured
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidegate.protocol.facts.errors import CheckpointError, ConfigurationError, SparkUnavailableError
from tidegate.protocol.text.lost_spark import details_of, says_wrong_setting
from tidegate.spark.session.installed import check_pair
from tidegate.spark.session.java import find_java
from tidegate.spark.session.jvm import start_jvm, where_the_log_is
from tidegate.spark.session.lazy_session import SHORTCUT, LazySession
from tidegate.spark.session.machine import raise_open_files, shortages
from tidegate.spark.session.packaging import ship
from tidegate.spark.session.scratch import scratch

LOOPBACK = "127.0.0.1"
#: The length of Spark's name for a socket, and of the longest socket path on every system. Beyond it, TCP is used.
_SOCKET_NAME = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH = 103

REQUIRED = {
    # CSV timestamps and Arrow types depend on it, so it must not depend on the machine.
    "spark.sql.session.timeZone": "UTC",
    # SPARK-58241: in Spark 4.2.0 a user's UDF directly over Parquet hangs for ever with it.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Otherwise the filter of a query would decide whether a row counts as malformed.
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    # Whether a plan is deterministic is read from its whole text.
    "spark.sql.debug.maxToStringFields": "100000",
}

#: Loggers of errors that PySpark also raises, with the stack of Java or gRPC. The caller explains these errors.
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "pyspark.sql.connect.logging")
#: The variable that makes the Connect client's log visible.
_CONNECT_LOG_LEVEL = "SPARK_CONNECT_LOG_LEVEL"

#: Settings of every session that is started here, whatever its master.
_OURS = {
    **REQUIRED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP each exchange with a Python worker waits 40 ms for a delayed acknowledgement, twice per Spark task.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Segments name their files. Above this number Spark would run a job with one task per file to list them again.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The address of Spark: a master or a Spark Connect server.

    Args:
        master: `local[2]`, `spark://host:port`, `yarn` or `k8s://…`.
        remote: `sc://host:port`, instead of a master.
        conf: Settings of Spark, which override the defaults.
        application: The name of the application.
        brief: Whether the session lives for less than a minute.

    Raises:
        ConfigurationError: If not exactly one of `master` and `remote` is given, or the address is malformed.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    application: str = "tidegate"
    brief: bool = False

    def __post_init__(self) -> None:
        if (self.master is None) == (self.remote is None):
            raise ConfigurationError(
                f"Spark needs either a master or a remote, but has {self.master!r} and "
                f"{without_token(self.remote)!r}. Set one "
                "of TIDEGATE_SPARK_MASTER and TIDEGATE_SPARK_REMOTE, or correct the Airflow connection."
            )
        if self.remote is not None:
            _check_remote(self.remote)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "SparkSettings":
        """Read `TIDEGATE_SPARK_MASTER` or `TIDEGATE_SPARK_REMOTE`, or use `local[2]` if neither is set.

        Args:
            environment: The variables. By default those of the process.

        Returns:
            The settings.
        """
        env = os.environ if environment is None else environment
        remote = env.get("TIDEGATE_SPARK_REMOTE") or None
        master = env.get("TIDEGATE_SPARK_MASTER") or None
        return cls(master or (None if remote else "local[2]"), remote)

    @classmethod
    def local(cls, cores: int = 2, conf: Mapping[str, str] | None = None) -> "SparkSettings":
        """Return settings for Spark inside this process's own JVM."""
        return cls(master=f"local[{cores}]", conf=conf or {})

    @classmethod
    def cluster(cls, master: str, conf: Mapping[str, str] | None = None) -> "SparkSettings":
        """Return settings for a cluster manager. A bare `host:port` is a standalone master."""
        known = "://" in master or master.startswith(("yarn", "local"))
        return cls(master=master if known else f"spark://{master}", conf=conf or {})

    @classmethod
    def connect(cls, remote: str, conf: Mapping[str, str] | None = None) -> "SparkSettings":
        """Return settings for a Spark Connect server. A bare `host:port` is accepted."""
        return cls(remote=remote if "://" in remote else f"sc://{remote}", conf=conf or {})


def without_token(remote: str | None) -> str | None:
    """Return the address of a Spark Connect server without its options, one of which is a secret."""
    return None if remote is None else remote.partition(";")[0].rstrip("/")


def _check_remote(remote: str) -> None:
    """Raise `ConfigurationError` for a malformed address. PySpark's own error would contain the token."""
    address, _, options = remote.partition(";")
    if not re.fullmatch(r"sc://[^/:\[\]]+(:\d+)?/?|sc://\[[^/\[\]]+\](:\d+)?/?", address):
        raise ConfigurationError(f"A Spark Connect address looks like sc://host:15002, not {without_token(remote)!r}.")
    wrong = [option.partition("=")[0] for option in options.split(";") if options and option.count("=") != 1]
    if wrong or (options and not address.endswith("/")):
        raise ConfigurationError(
            f"Options of a Spark Connect address look like sc://host:15002/;name=value, but those of "
            f"{without_token(remote)!r} do not{': ' if wrong else ''}{', '.join(wrong)}. Write = and ; within a value "
            "as %3D and %3B."
        )


def open_session(settings: SparkSettings) -> SparkSession:
    """Open a Spark session with the settings and the files that pipelines need.

    Args:
        settings: The address and the settings of Spark.

    Returns:
        The session.

    Raises:
        SparkUnavailableError: If Spark cannot be started or reached.
        ConfigurationError: If a setting is invalid.
    """
    check_pair()
    if settings.remote is not None:
        return adopt_session(_connect(settings.remote, settings))
    prepare_machine()
    master = settings.master or ""
    name = {"spark.app.name": settings.application, "spark.master": master}
    conf = {**name, **settings_of(master, scratch(), settings.brief), **settings.conf}
    of_sql = {key: value for key, value in settings.conf.items() if key.startswith("spark.sql.")}
    try:
        start_jvm(conf)
        _check_values(of_sql)
        return adopt_session(_classic(conf, at_once=bool(of_sql) or not SHORTCUT.is_taken()))
    except ConfigurationError:
        raise
    except Exception as error:
        raise _not_opened(error)(
            f"Spark could not be started on {settings.master}: {str(error).rstrip('.')}. {shortages()}Nothing was run. "
            f"{where_the_log_is()}".rstrip()
        ) from error


def _not_opened(error: Exception) -> type[CheckpointError]:
    """Return the error's class: a user's setting is wrong, or the problem may pass, such as an absent server or a lack
    of memory."""
    is_wrong = isinstance(error, IllegalArgumentException) or says_wrong_setting(str(error))
    return ConfigurationError if is_wrong else SparkUnavailableError


def _check_values(of_sql: Mapping[str, str]) -> None:
    """Raise PySpark's error for an option with an invalid value. Spark 4.1 would begin a session with it and fail at
    each use. PySpark then asks that session how to print the error, which fails too, and never returns."""
    if of_sql and SHORTCUT.is_taken():
        captured.install_exception_handler()
        known = cast(Any, getattr(SparkContext._jvm, "org.apache.spark.sql.internal.SQLConf"))()
        for key, value in of_sql.items():
            known.setConfString(key, value)


def _classic(conf: Mapping[str, str], at_once: bool) -> SparkSession:
    """Return the session of this process. If a user has set options of Spark SQL, it starts here, so that other errors
    in them appear when the session is opened."""
    if at_once or SparkContext._active_spark_context is not None:
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    return LazySession(SparkContext.getOrCreate(SparkConf().setAll(list(conf.items()))), options=conf)


def prepare_machine() -> None:
    """Prepare this process to start a JVM. Raise `ConfigurationError` if there is no Java."""
    raise_open_files()
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    # Spark would otherwise use the first python3 on PATH, of any version.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _use_utf8_names()


def settings_of(master: str, private: Path, brief: bool = False) -> dict[str, str]:
    """Return the settings of a Spark that is started here. `private` is a directory for files that others must not
    see."""
    return {**_OURS, **(_local_defaults(master, private, brief) if master.startswith("local") else {})}


def _use_utf8_names() -> None:
    """Set a locale with UTF-8. A JVM encodes file names by its locale alone, and under LC_ALL=C it cannot open a name
    that is not ASCII."""
    declared = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LC_CTYPE")
    if "utf8" not in os.environ.get(declared, "").lower().replace("-", ""):
        os.environ["LC_ALL" if declared == "LC_ALL" else "LC_CTYPE"] = "C.UTF-8"


def adopt_session(session: SparkSession) -> SparkSession:
    """Prepare a session for regions: set the options that results depend on, check those that cannot be set, ship the
    library.

    Raise `ConfigurationError`, which names the problem.
    """
    version = session.version if is_connect(session) else session.sparkContext.version
    if tuple(int(part) for part in version.split(".")[:2]) < (4, 1):
        raise ConfigurationError(f"Tidegate needs Spark 4.1 or later (repartitionById), but this is {version}.")
    for name in _LOGGERS:
        if not (name.startswith("pyspark.sql.connect") and _CONNECT_LOG_LEVEL in os.environ):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    if not isinstance(session, LazySession) or session.has_begun:  # otherwise it starts with its options
        _require(session)
    ship(session)
    return session


def _require(session: SparkSession) -> None:
    for key, value in REQUIRED.items():
        if session.conf.get(key) != value:  # a Connect server would validate a default given here as if it were set
            session.conf.set(key, value)


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is a Spark Connect client, which shares no JVM and no Spark context with this
    process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _connect(remote: str, settings: SparkSettings) -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy  # needs grpc, which classic sessions do without

    try:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # a warning about exceeded retries, which the error also reports
            session = SparkSession.builder.remote(remote).create()
            # The default retries for ten minutes. A server that comes back has lost its sessions anyway.
            cast(Any, session).client.set_retry_policies([DefaultPolicy(max_retries=5)])
            for key, value in settings.conf.items():
                session.conf.set(key, value)
            _ = session.version  # the first call that reaches the server, if there was none
    except Exception as error:
        raise _not_opened(error)(
            f"The Spark Connect server at {without_token(remote)} cannot be used: {details_of(str(error))}. Nothing "
            "was run. Start the server or correct the address, then repeat the step."
        ) from error
    return session


#: Java's optimising compiler waits ten times as long before it compiles a method. Jobs of many rows get there quickly.
#: Small ones would only pay for the compiler.
_PATIENT = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
#: A session that lives for less than a minute runs without that compiler, and so without the counters for it.
_BRIEF = "-XX:TieredStopAtLevel=1"
#: Java's heap begins small, and grows with its content. By default it begins with a part of the machine's memory, and
#: fills that with garbage first.
_SMALL_AT_FIRST = "-Xms64m"


def _local_defaults(master: str, private: Path, brief: bool) -> dict[str, str]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    compiler = _BRIEF if brief else _PATIENT
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        # Other users of this machine can connect to the loopback. Spark creates a secret, which never leaves the JVM.
        "spark.authenticate": "true",
        "spark.local.dir": str(private),
        # The default options, because a user may set the extra options. Sockets, native libraries and artifacts go here
        # too.
        "spark.driver.defaultJavaOptions": f'"-Djava.io.tmpdir={private}" {_SMALL_AT_FIRST} {compiler}',
        "spark.python.unix.domain.socket.enabled": str(len(str(private)) + _SOCKET_NAME <= _SOCKET_PATH).lower(),
        "spark.python.daemon.module": "tidegate.spark.executor.daemon",
        **_for_cores(_local_cores(master)),
    }


def _local_cores(master: str) -> int:
    cores = master.removeprefix("local").strip("[]").split(",")[0]
    return os.cpu_count() or 1 if cores == "*" else int(cores or 1)


#: The maximum number of cores with which the JVM collects garbage serially. On few cores that is as fast as the
#: default, with less memory. Many cores would wait for it.
_FEW_CORES = 4


def _for_cores(cores: int) -> dict[str, str]:
    """Return settings by the number of cores. On one machine, more shuffle partitions than cores only add Spark
    tasks."""
    frugal = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"} if cores <= _FEW_CORES else {}
    return {"spark.sql.shuffle.partitions": str(cores), **frugal}
