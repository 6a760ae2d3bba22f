"""The composition of all parts, the same for Airflow, the command line and the tests. It has no logic of its own."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from getpass import getuser
from importlib.util import find_spec
from random import Random
from socket import gethostname
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.clock import SystemClock
from tidegate.coordination.all_operations import AllOperations
from tidegate.coordination.context import context_of
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.observing.listeners import NotifiedListeners
from tidegate.coordination.operations import PipelineOperations
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.operator_state import find_earlier_state, find_state
from tidegate.coordination.steps.definitions import refused_definition
from tidegate.coordination.steps.lookup import keep_max_parallelism
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.ports import Meter, Notifier
from tidegate.project.registered import load_pipeline as load_pipeline
from tidegate.project.registered import registered_pipelines as registered_pipelines
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.observing.actions import ActionKind, Actor, ActorKind, UserAction
from tidegate.protocol.text.installed import not_installed
from tidegate.settings import Settings, resolve

if TYPE_CHECKING:  # heavy: imported where they are used, so that DAG files can import this module
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidegate.postgres.store import PostgresCheckpointStore
    from tidegate.protocol.schema.state_schema import StateSchema
    from tidegate.quality.validator import GreatExpectationsValidator
    from tidegate.reading.readings import Readings
    from tidegate.spark.region import SparkRegion
    from tidegate.spark.session.sessions import SparkSettings
    from tidegate.state.reading import StateFiles

#: Shared by the whole process: a process that takes several steps notifies a listener once.
_NOTIFIED = NotifiedListeners()


def open_store(database_url: str | None = None, *, writes: bool = False) -> "PostgresCheckpointStore":
    """Open the store in the located database (`tidegate.embedded_postgres.locate`). With `writes`, an embedded database
    is created and started if necessary. Raises `ConfigurationError`, also if the schema is not up to date, and
    `StoreUnavailableError`."""
    from tidegate.embedded_postgres.locate import direct_database
    from tidegate.embedded_postgres.locate import locate_database as locate
    from tidegate.postgres.engine import connect
    from tidegate.postgres.migrate import check
    from tidegate.postgres.store import PostgresCheckpointStore

    engine = connect(locate(database_url, writes=writes))
    check(engine)
    direct = direct_database()
    return PostgresCheckpointStore(engine, None if direct is None else connect(direct))


def open_readings(database_url: str | None = None, settings: Settings | None = None) -> "Readings":
    """Open the located database for reading. Raises as `open_store`."""
    from tidegate.embedded_postgres.locate import direct_database
    from tidegate.embedded_postgres.locate import locate_database as locate
    from tidegate.postgres.engine import connect
    from tidegate.postgres.migrate import check
    from tidegate.reading.readings import Readings
    from tidegate.state.stored import StoredState

    settings = settings or Settings.from_environment()
    stored = StoredState(settings.storage, settings.cache)
    engine = connect(locate(database_url))
    check(engine)
    direct = direct_database()
    return Readings(engine, SystemClock().now, stored.open, stored, None if direct is None else connect(direct))


def open_coordinator(
    pipeline: Pipeline,
    settings: Settings | None = None,
    database_url: str | None = None,
    notifiers: Sequence[Notifier] = (),
    meters: Sequence[Meter] = (),
    writes: bool = True,
) -> CheckpointCoordinator:
    """Open the coordinator of a pipeline on real storage and a real database. A pipeline that does not set
    max_parallelism takes over that of its state here, so open its coordinator first, then its region. `notifiers` and
    `meters` are added to those of the environment. Without `writes`, no embedded database is started."""
    from tidegate.reporting.configured import configured_meters, configured_notifiers
    from tidegate.state.schemas import StoredSchemas
    from tidegate.state.storage import ArrowCheckpointStorage

    settings, store = settings or Settings.from_environment(), open_store(database_url, writes=writes)
    keep_max_parallelism(pipeline, store)
    storage = ArrowCheckpointStorage(settings.storage)
    graph, clock = compile_graph(pipeline), SystemClock()
    schemas = StoredSchemas(graph, storage.url, lambda: _open_types(pipeline, storage.url))
    all_notifiers = [*configured_notifiers(graph, store, storage, clock), *notifiers]
    all_meters = [*configured_meters(), *meters]
    return CheckpointCoordinator(pipeline, store, storage, clock, _NOTIFIED, schemas, all_notifiers, all_meters)


def open_operations(pipeline_id: str, database_url: str | None = None, writes: bool = True) -> PipelineOperations:
    """Open the user actions on a pipeline that need no pipeline code (see `coordination.operations`). Raises
    `PipelineNotFoundError` for a name that the database does not know."""
    return open_all_operations(database_url, writes).of(pipeline_id)


def open_all_operations(database_url: str | None = None, writes: bool = True) -> AllOperations:
    """Open the user actions on all pipelines. Raises as `open_store`."""
    from tidegate.state.storage import ArrowCheckpointStorage

    store = open_store(database_url, writes=writes)
    storage = ArrowCheckpointStorage(Settings.from_environment().storage)
    return AllOperations(store, storage, SystemClock(), store.close)


def command_actor() -> Actor:
    """Return the actor of this process: the user of the operating system, and the host."""
    try:
        name = getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        name = f"uid {os.getuid()}"
    return Actor(ActorKind.CLI_USER, name, gethostname())


def new_action(kind: ActionKind, **details: Any) -> UserAction:
    """Make a user action of this process's user, with a new id. Details that are None are left out."""
    given = {name: value for name, value in details.items() if value is not None}
    return UserAction(str(uuid4()), kind, command_actor(), given)


def _open_types(pipeline: Pipeline, storage_url: str) -> "Callable[[str], StateSchema]":
    """Return a function that determines the types of the pipeline's state, on a Spark session of its own."""
    from tidegate.spark.session.sessions import SparkSettings, open_session
    from tidegate.spark.state_schemas import DefinedSchemas

    session = open_session(SparkSettings.from_environment())
    return DefinedSchemas(compile_graph(pipeline), session, storage_url).of


def open_recovery(pipeline: Pipeline, storage: str | None = None, database_url: str | None = None) -> Recovering:
    """Open a recovery of the pipeline from a checkpoint storage, a path or URL; by default the configured one."""
    from tidegate.state.storage import ArrowCheckpointStorage

    where = Settings.from_environment().storage if storage is None else resolve(storage)
    store = open_store(database_url, writes=True)
    return Recovering(context_of(compile_graph(pipeline), store, ArrowCheckpointStorage(where), SystemClock()))


def open_region(
    pipeline: Pipeline, spark: "SparkSettings | None" = None, settings: Settings | None = None
) -> "SparkRegion":
    """Open the pipeline's region on a Spark session of its own, or on the one that `spark` describes."""
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
    """Open a continuous run of the pipeline, on a Spark session of its own or on the one that `spark` describes."""
    coordinator = open_coordinator(pipeline, settings, database_url)
    coordinator.check()  # a pipeline that cannot begin is refused before Spark is started
    region = open_region(pipeline, spark, settings)
    require_definition(coordinator, lambda: region)
    validator = open_validator(region.graph, lambda: region, settings)
    return ContinuousRun(coordinator, region.run, validator, Random())


def check_installed(graph: Graph) -> None:
    """Raise `NotInstalledError` if a package that a checkpoint of the pipeline needs is missing on this machine."""
    needed = ["pyspark", *(["great_expectations"] if graph.targets else [])]
    for name in needed:
        if find_spec(name) is None and (missing := not_installed(name)):
            raise missing


def check_definition(pipeline: Pipeline) -> list[str]:
    """Return a sentence for each problem for which a run would refuse the definition: problems of columns, types and
    functions that Spark finds without data, and those of expectations that Great Expectations finds. Raises
    `PipelineDefinitionError` for problems that show without both."""
    from tidegate.spark.session.sessions import SparkSettings, open_session

    graph = compile_graph(pipeline)
    check_installed(graph)
    return definition_problems(graph, open_session(SparkSettings.from_environment()))


def definition_problems(graph: Graph, session: "SparkSession") -> list[str]:
    """Find the problems of a definition on an open session. An interrupt is raised at the end."""
    from tidegate.spark.checking import DefinitionCheck
    from tidegate.spark.driver.interrupts import noting_interrupts

    with noting_interrupts():
        check = DefinitionCheck(graph, session, Settings.from_environment().storage)
        problems = check.problems()
        if graph.suites:
            from tidegate.quality.definition import wrong_expectations

            problems += wrong_expectations(graph, check.columns())
    return problems


def require_definition(coordinator: CheckpointCoordinator, region: "Callable[[], SparkRegion]") -> None:
    """Check a changed definition on the region's session. `region` is not called for the definition of the newest
    completed checkpoint. Raises `PipelineDefinitionError`."""
    if coordinator.definitions.has_changed() and (problems := definition_problems(coordinator.graph, region().session)):
        raise refused_definition(coordinator.pipeline_id, problems)


def open_validator(
    graph: Graph, region: "Callable[[], SparkRegion]", settings: Settings | None = None
) -> "GreatExpectationsValidator":
    """Open Great Expectations as the validator. `region` is opened once Spark is needed for it."""
    from tidegate.quality.validator import GreatExpectationsValidator, frames_of

    check_installed(graph)
    frames = frames_of(graph, lambda *what: region().frame(*what))
    return GreatExpectationsValidator(graph, frames, (settings or Settings.from_environment()).docs)


# Public as `tidegate.state.read` and `tidegate.state.options`.
def read_state(
    pipeline: str,
    operator: str,
    *,
    checkpoint: int | None = None,
    savepoint: str | None = None,
    key: object = None,
    changes_since: int | None = None,
) -> "pa.RecordBatchReader":
    """Read the current rows of a keyed operator at a checkpoint, by default the latest completed one, without Spark.

    Pipeline, operator and checkpoint are found in the database. Then only files are read.

    Args:
        pipeline: The name of the pipeline.
        operator: The name of the operator.
        checkpoint: The id of a checkpoint.
        savepoint: The name or number of a savepoint, instead of a checkpoint.
        key: The key of a single row to read: a value if there is one key column, a list, or a dict by column name,
            which also allows null.
        changes_since: The id of another checkpoint. Only rows are read whose value differs from that checkpoint, with a
            column `_change`: "upsert", or "delete" for a deleted key, whose other columns are null.

    Returns:
        Batches of bounded size, in no particular order. Reading them raises `StateIntegrityError` and `StorageError`.

    Raises:
        PipelineNotFoundError: If there is no such pipeline.
        CheckpointNotFoundError: If there is no such checkpoint or savepoint.
        CheckpointNotRetainedError: If its state is not kept any more.
        OperatorNotFoundError: If it has no keyed operator of this name.
        ConfigurationError: For a key that does not fit, or for both a checkpoint and a savepoint.

    Example:
        `tidegate.state.read("shop", "customers", key="ann").read_all()` is a `pyarrow.Table`. read-state.md has more.
    """
    import pyarrow as pa

    from tidegate.state.reading import open_state

    files = find_state_files(
        pipeline, operator, checkpoint=checkpoint, savepoint=savepoint, changes_since=changes_since
    )

    @contextmanager
    def explained() -> Iterator[None]:
        try:
            yield
        except StateIntegrityError:  # perhaps the checkpoint was replaced meanwhile, and its files were deleted
            find_state_files(pipeline, operator, checkpoint=files.state.checkpoint_id, changes_since=changes_since)
            raise

    def batches() -> "Iterator[pa.RecordBatch]":
        with explained():
            yield from reading.batches()

    with explained():
        reading = open_state(files, key)
    return pa.RecordBatchReader.from_batches(reading.schema, batches())


def state_options(
    pipeline: str,
    operator: str,
    *,
    checkpoint: int | None = None,
    savepoint: str | None = None,
    changes_since: int | None = None,
) -> dict[str, str]:
    """Make the options of `spark.read.format("tidegate_state")`, for the rows that `tidegate.state.read` reads. The
    session must know the format (see `register_state_source`).

    Args:
        pipeline: The name of the pipeline.
        operator: The name of the operator.
        checkpoint: The id of a checkpoint.
        savepoint: The name or number of a savepoint, instead of a checkpoint.
        changes_since: The id of another checkpoint, as for `tidegate.state.read`.

    Returns:
        The options, with the names resolved to files.

    Raises:
        PipelineNotFoundError: If there is no such pipeline.
        CheckpointNotFoundError: If there is no such checkpoint or savepoint.
        CheckpointNotRetainedError: If its state is not kept any more.
        OperatorNotFoundError: If it has no keyed operator of this name.
        ConfigurationError: For both a checkpoint and a savepoint.
    """
    files = find_state_files(
        pipeline, operator, checkpoint=checkpoint, savepoint=savepoint, changes_since=changes_since
    )
    return {"files": files.to_json()}


def find_state_files(
    pipeline: str,
    operator: str,
    *,
    checkpoint: int | None = None,
    savepoint: str | None = None,
    changes_since: int | None = None,
) -> "StateFiles":
    """Find the files of the state that `read_state` reads."""
    from tidegate.state.reading import StateFiles

    settings = Settings.from_environment()
    with closing(open_store()) as store:
        state = find_state(store, pipeline, operator, checkpoint, savepoint)
        since = None if changes_since is None else find_earlier_state(store, state, changes_since)
    return StateFiles(settings.storage, settings.cache, state, since)
