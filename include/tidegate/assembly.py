"""Puts the parts together, the same way for Airflow, the command line and the tests. Holds no logic of its own."""

import os
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tidegate.clock import SystemClock
from tidegate.coordination.continuous_run import ContinuousRun
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.listeners import NotifiedListeners
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.errors import ConfigurationError, PipelineNotFoundError
from tidegate.protocol.paths import shared_directory
from tidegate.protocol.regions import RegionStart
from tidegate.settings import Settings

if TYPE_CHECKING:  # heavy: imported where they are used, so that DAG files can import this module
    from tidegate.postgres.store import PostgresCheckpointStore
    from tidegate.quality.validator import GreatExpectationsValidator
    from tidegate.spark.region import SparkRegion
    from tidegate.spark.session.sessions import SparkSettings

#: Of this process: a process that takes several steps notifies a listener once.
_NOTIFIED = NotifiedListeners()


def open_store(database_url: str | None = None) -> "PostgresCheckpointStore":
    """The store in the located database (`tidegate.embedded_postgres.locate`). Raises `ConfigurationError`, also if the
    schema is not up to date, and `StoreUnavailableError`."""
    from tidegate.embedded_postgres.locate import locate_database as locate
    from tidegate.postgres.engine import connect
    from tidegate.postgres.migrate import check
    from tidegate.postgres.store import PostgresCheckpointStore

    engine = connect(locate(database_url))
    check(engine)
    return PostgresCheckpointStore(engine)


def open_coordinator(
    pipeline: Pipeline, settings: Settings | None = None, database_url: str | None = None
) -> CheckpointCoordinator:
    """The coordinator of a pipeline on real storage and a real database."""
    from tidegate.state.storage import ArrowCheckpointStorage

    settings = settings or Settings.from_environment()
    return CheckpointCoordinator(
        pipeline, open_store(database_url), ArrowCheckpointStorage(settings.storage), SystemClock(), _NOTIFIED
    )


def open_region(
    pipeline: Pipeline, spark: "SparkSettings | None" = None, settings: Settings | None = None
) -> "SparkRegion":
    """The pipeline's region on a Spark session of its own, or the one that `spark` describes."""
    from tidegate.spark.region import SparkRegion
    from tidegate.spark.session.sessions import SparkSettings, open_session
    from tidegate.state.storage import ArrowCheckpointStorage

    settings = settings or Settings.from_environment()
    session = open_session(spark or SparkSettings.from_environment())
    return SparkRegion(
        compile_graph(pipeline), session, ArrowCheckpointStorage(settings.storage), SystemClock(), settings
    )


def open_continuous(
    pipeline: Pipeline,
    spark: "SparkSettings | None" = None,
    settings: Settings | None = None,
    database_url: str | None = None,
) -> ContinuousRun:
    """A continuous run of the pipeline, on a Spark session of its own or the one that `spark` describes."""
    from tidegate.dataflow.continuous_driver import ContinuousDriver

    region = open_region(pipeline, spark, settings)

    def start(begin: RegionStart) -> ContinuousDriver:
        directory = shared_directory(pipeline.name, begin.attempt)
        return ContinuousDriver(region.parts, directory, begin.attempt, begin.restored)

    coordinator = open_coordinator(pipeline, settings, database_url)
    validator = open_validator(region, settings)
    return ContinuousRun(coordinator, open_store(database_url), start, validator, SystemClock(), Random())


def open_validator(region: "SparkRegion", settings: Settings | None = None) -> "GreatExpectationsValidator":
    """Great Expectations over what the region staged."""
    from tidegate.quality.validator import GreatExpectationsValidator

    settings = settings or Settings.from_environment()
    return GreatExpectationsValidator(region.graph, region.frame, settings.docs)


def load_pipeline(name: str) -> Pipeline:
    """A pipeline by `module:attribute`, or by a name listed under `[tool.tidegate.pipelines]` in the pyproject.toml of
    the project's home. Raises `PipelineNotFoundError`, `ConfigurationError`."""
    target = name if ":" in name else registered_pipelines().get(name)
    if target is None:
        known = ", ".join(sorted(registered_pipelines())) or "none"
        raise PipelineNotFoundError(
            f"No pipeline named {name!r} is listed under [tool.tidegate.pipelines] in {_project_file()} (listed: "
            f"{known}). List it there, or give it as module:attribute."
        )
    module_name, _, attribute = target.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PipelineNotFoundError(f"Pipeline {target!r} cannot be loaded: {error}.") from error
    if not isinstance(found, Pipeline):
        raise PipelineNotFoundError(f"{target!r} is a {type(found).__name__}, not a tidegate Pipeline.")
    return found


def registered_pipelines() -> dict[str, str]:
    """Names and targets from the project's pyproject.toml; empty if there is none."""
    path = _project_file()
    if not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from error
    pipelines = table.get("tool", {}).get("tidegate", {}).get("pipelines", {})
    return {str(key): str(value) for key, value in pipelines.items()}


def _project_file() -> Path:
    return Settings.from_environment().home / "pyproject.toml"
