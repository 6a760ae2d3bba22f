"""Checks of everything that the project needs on this machine: a finding for each, with the command that fixes it.

They change nothing, except for a file that is written to the checkpoint storage and deleted again, and start nothing.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL, Engine, text

from tidegate.embedded_postgres.locate import (
    DIRECT_VARIABLE,
    VARIABLE,
    airflow_connection,
    direct_database,
    has_airflow,
    locate_database,
)
from tidegate.pipeline.vertices import SinkVertex, SourceVertex
from tidegate.ports import RemoteEndpoint
from tidegate.postgres.engine import connect
from tidegate.postgres.listening import ChangeListener
from tidegate.postgres.migrate import answers, check
from tidegate.project.registered import load_pipeline, registered_pipelines
from tidegate.protocol.facts.errors import CheckpointError, ConfigurationError, StoreUnavailableError
from tidegate.protocol.text.installed import repair_pair
from tidegate.settings import Settings, is_project
from tidegate.spark.session.installed import installed
from tidegate.spark.session.java import find_java

PYTHONS = ((3, 11), (3, 13))
OLDEST_SPARK, OLDEST_AIRFLOW = (4, 1), (3, 2)
ICEBERG = (0, 12)
#: The seconds that the clocks of this machine and of the database may differ: deadlines are compared across them.
SKEW = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `ok` is None if something is missing that not every project needs; `mend` is the command
    that fixes it.
    """

    what: str
    ok: bool | None
    says: str
    mend: str | None = None


def examine(environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Return all findings, in the order in which they matter. No error is raised."""
    env = os.environ if environment is None else environment
    findings = [
        _python(),
        _java(),
        _spark(),
        _quality(),
        _postgres(),
        _iceberg(),
        _kafka(),
        _sketches(),
        _airflow(),
        _pipelines(),
        *_remote(),
        _storage(env),
    ]
    url, found = _database(env)
    findings.append(found)
    if url is not None:
        engine = connect(url)
        try:
            findings += [_schema(engine), _clock(engine)]
        finally:
            engine.dispose()
    return [*findings, _connections(env), _plugin(env)]


def _python() -> Finding:
    ok = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    message = f"{sys.version_info.major}.{sys.version_info.minor}, {sys.executable}"
    return Finding("python", ok, message, None if ok else "python3.12 -m venv .venv")


def _java() -> Finding:
    try:
        return Finding("java", True, str(find_java()))
    except ConfigurationError as error:
        return Finding("java", False, str(error), "pip install 'tidegate[embedded]'")


def _spark() -> Finding:
    version, client = installed("pyspark"), installed("pyspark-client")
    if version is None:
        return Finding("spark", False, "pyspark is not installed.", "pip install 'tidegate[spark]'")
    if _numbers(version) < OLDEST_SPARK:
        return Finding("spark", False, f"pyspark {version} is too old.", "pip install --upgrade 'tidegate[spark]'")
    if client is not None and client != version:
        message = f"pyspark {version} and pyspark-client {client} are mixed up in one folder."
        return Finding("spark", False, message, repair_pair(version, client))
    return Finding("spark", True, f"pyspark {version}" + (f", pyspark-client {client}" if client else ""))


def _extra(extra: str, package: str, called: str, without: str) -> Finding:
    """Check an optional extra that some pipelines need."""
    version = installed(package)
    if version is None:
        return Finding(extra, None, f"{called} is not installed: {without}.", f"pip install 'tidegate[{extra}]'")
    return Finding(extra, True, f"{called} {version}")


def _quality() -> Finding:
    return _extra("quality", "great-expectations", "Great Expectations", "pipelines with expectations do not run")


def _postgres() -> Finding:
    return _extra(
        "postgres", "adbc-driver-postgresql", "ADBC for Postgres", "PostgresSink and PostgresSource do not run"
    )


def _iceberg() -> Finding:
    found = _extra("iceberg", "pyiceberg", "pyiceberg", "IcebergSink and IcebergSource do not run")
    version = installed("pyiceberg")
    if version is None or _numbers(version)[:2] == ICEBERG:
        return found
    return Finding("iceberg", False, f"pyiceberg {version}", "pip install --upgrade 'tidegate[iceberg]'")


def _kafka() -> Finding:
    found = _extra("kafka", "confluent-kafka", "confluent-kafka", "KafkaSource and KafkaSink do not run")
    avro = _extra("kafka", "fastavro", "fastavro", 'format="avro" does not run')
    if found.ok and not avro.ok:
        return Finding("kafka", avro.ok, f"{found.says}. {avro.says}", avro.mend)
    return Finding("kafka", found.ok, f"{found.says}, {avro.says}", None) if found.ok else found


def _sketches() -> Finding:
    without = "approx_count_distinct, approx_percentile and approx_top_k do not run"
    return _extra("sketches", "datasketches", "datasketches", without)


def _airflow() -> Finding:
    version = installed("apache-airflow-core") or installed("apache-airflow")
    if version is None:
        message = "Airflow is not installed; commands work without it."
        return Finding("airflow", None, message, "pip install 'tidegate[airflow]'")
    pydantic = installed("pydantic")
    if _numbers(version) < (3, 3) and pydantic is not None and _numbers(pydantic) >= (2, 14):
        return Finding(
            "airflow", False, f"{version} does not run with pydantic {pydantic}.", "pip install 'pydantic<2.14'"
        )
    ok = _numbers(version) >= OLDEST_AIRFLOW
    return Finding("airflow", ok, version, None if ok else "pip install --upgrade 'tidegate[airflow]'")


def _pipelines() -> Finding:
    try:
        names = sorted(registered_pipelines())
    except CheckpointError as error:
        return Finding("pipelines", False, str(error), "tidegate pipelines")
    for name in names:
        try:
            load_pipeline(name)
        except CheckpointError as error:
            return Finding("pipelines", False, str(error), f"tidegate check {name}")
    if not names:
        return Finding("pipelines", None, "No pipeline is registered in this directory.", "tidegate init")
    return Finding("pipelines", True, ", ".join(names))


def _remote() -> list[Finding]:
    """Check the remote systems that registered pipelines read and write, each once."""
    found: dict[str, Finding] = {}
    with suppress(CheckpointError):  # `_pipelines` has reported it
        for name in sorted(registered_pipelines()):
            for vertex in load_pipeline(name).vertices:
                if not isinstance(vertex, SourceVertex | SinkVertex):
                    continue
                endpoint = vertex.source if isinstance(vertex, SourceVertex) else vertex.sink
                if (
                    isinstance(endpoint, RemoteEndpoint)
                    and (place := str(endpoint.describe().get("path"))) not in found
                ):
                    found[place] = _reached(endpoint, name)
    return list(found.values())


def _reached(endpoint: RemoteEndpoint, pipeline: str) -> Finding:
    try:
        return Finding("brokers", True, endpoint.reached())
    except CheckpointError as error:
        return Finding("brokers", False, str(error), f"tidegate check {pipeline}")


def _storage(env: Mapping[str, str]) -> Finding:

    from tidegate.state.storage import ArrowCheckpointStorage  # imports pyarrow, which is slow

    url, probe = Settings.from_environment(env).storage, f".doctor-{uuid4()}"
    try:
        storage = ArrowCheckpointStorage(url)
        storage.write(probe, b"ok")
        storage.delete([probe])
    except CheckpointError as error:
        return Finding(
            "storage", False, str(error), f"mkdir -p {url}" if "://" not in url else "export TIDEGATE_STORAGE=…"
        )
    return Finding("storage", True, url)


def _database(env: Mapping[str, str]) -> tuple[URL | None, Finding]:
    try:
        url = locate_database(environment=env)
        engine = connect(url)
        try:
            answers(engine)
        finally:
            engine.dispose()
    except StoreUnavailableError as error:
        return None, Finding("database", False, str(error), "tidegate db start")
    except CheckpointError as error:
        ours = is_project(env) and not env.get(VARIABLE)
        return None, Finding(
            "database", None if ours else False, str(error), "tidegate db start" if ours else "tidegate init"
        )
    return url, _check_listening(url, env)


def _check_listening(url: URL, env: Mapping[str, str]) -> Finding:
    """Check that a process is notified of other processes' commits, which a pooler may prevent."""
    message = f"{url.database} on {url.host}:{url.port or 5432}, as {url.username}"
    try:
        direct = direct_database(env)
        engine = connect(direct or url)
        listener = ChangeListener(engine)
        try:
            listener.open()
        finally:
            listener.close()
            engine.dispose()
    except CheckpointError as error:
        return Finding("database", False, f"{message}. {error}", f"export {DIRECT_VARIABLE}=postgresql://…")
    return Finding(
        "database", True, message + (f"; notifications arrive through {direct.host}:{direct.port}" if direct else "")
    )


def _schema(engine: Engine) -> Finding:
    try:
        check(engine)
    except CheckpointError as error:
        return Finding("schema", False, str(error), "tidegate db upgrade")
    return Finding("schema", True, "up to date")


def _clock(engine: Engine) -> Finding:
    with engine.connect() as connection:
        before = datetime.now(UTC)
        theirs: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        after = datetime.now(UTC)
    apart = max((before - theirs).total_seconds(), (theirs - after).total_seconds(), 0.0)
    message = f"{apart:.1f} s apart from the database's clock"
    return Finding("clock", apart <= SKEW, message, None if apart <= SKEW else "timedatectl set-ntp true")


def _connections(env: Mapping[str, str]) -> Finding:
    """Check Airflow's connections, only if Airflow is configured: its import takes seconds."""
    if installed("apache-airflow-core") is None or not has_airflow(env):
        return Finding("connections", None, "Airflow is not configured here; AIRFLOW_HOME is not set.")
    spark = airflow_connection("spark_default")
    if spark is None:
        message = "Airflow has no connection spark_default, which points to Spark."
        return Finding(
            "connections",
            False,
            message,
            "airflow connections add spark_default --conn-type spark --conn-host 'local[2]'",
        )
    database = (
        "tidegate_default"
        if airflow_connection() is not None
        else "no connection for the database, which is configured as above"
    )
    return Finding("connections", True, f"spark_default ({spark.conn_type}), {database}")


def _plugin(env: Mapping[str, str]) -> Finding:
    if installed("apache-airflow-core") is None:
        return Finding("plugin", None, "Airflow is not installed.")
    folder = Path(env.get("AIRFLOW__CORE__PLUGINS_FOLDER") or Path(env.get("AIRFLOW_HOME") or "~/airflow") / "plugins")
    registered = len(entry_points(group="airflow.plugins", name="tidegate"))
    copies = [path for path in folder.expanduser().glob("*.py") if "class TidegatePlugin" in path.read_text()]
    if registered and copies:
        message = f"Both the package and {copies[0]} register the pages, so Airflow loads neither."
        return Finding("plugin", False, message, f"rm {copies[0]}")
    if not registered and not copies:
        message = "The pages are not registered with Airflow."
        return Finding("plugin", False, message, "pip install --force-reinstall --no-deps tidegate")
    return Finding("plugin", True, "registered by the package" if registered else str(copies[0]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
