"""A project for a pipeline that is killed: a directory, an embedded server, and the rows that readers see."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlalchemy import MetaData, Table, inspect, select

from tidegate.assembly import open_store, open_validator, read_state
from tidegate.embedded_postgres.locate import embedded_directory
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import ReadableAtSink, ReadableSink
from tidegate.postgres_sink.databases import VARIABLE, connected
from tidegate.postgres_sink.sink import PostgresSink
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import Settings
from tidegate.tables.finding import read
from tidegate.testing.crashing import MortalPipeline
from tidegate.testing.trials import Rows, counted, difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The content of files that arrive together, by path relative to the project's home.
Files = Mapping[str, "str | bytes"]
Shown = Mapping[str, Callable[[Any], Rows]]


@dataclass
class CrashWorld:
    """A project that contains the pipeline."""

    home: Path
    session: "SparkSession"
    shown: Shown
    only: str
    pipeline: MortalPipeline = field(init=False)
    _connections: dict[str, str] = field(default_factory=dict)

    def begin(self, pipeline: Pipeline) -> Callable[[], None]:
        """Open the store and the pipeline. Return the function that closes them."""
        self._sinks = {vertex.name: vertex.sink for vertex in pipeline.vertices if isinstance(vertex, SinkVertex)}
        unreadable = [name for name, sink in self._sinks.items() if not self._is_readable(name, sink)]
        if unreadable:
            raise ConfigurationError(
                f"The rows of sink {', '.join(unreadable)} cannot be read and so not be compared. Nothing was run. "
                "Give crash_test(…, shown={name: function}) a function that takes the sink and returns its rows."
            )
        settings = Settings.from_environment()
        store = open_store(writes=True)
        server = EmbeddedPostgres(embedded_directory(settings))
        self._connections = {
            f"{VARIABLE}{sink.connection.upper()}": _database(server, f"connection_{sink.connection}")
            for sink in self._sinks.values()
            if isinstance(sink, PostgresSink) and sink.connection is not None
        }
        self.pipeline = MortalPipeline(
            pipeline,
            store,
            self.session,
            settings,
            lambda graph, region: open_validator(graph, region, settings),
            self.only,
        )

        def end() -> None:
            store.close()
            server.remove()

        return end

    def _is_readable(self, name: str, sink: object) -> bool:
        return name in self.shown or isinstance(sink, ReadableSink | ReadableAtSink)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Use the environment of this project inside the block."""
        before = {name: value for name, value in os.environ.items() if name.startswith("TIDEGATE_")}
        kept = {name: value for name, value in before.items() if name in ("TIDEGATE_CACHE", "TIDEGATE_SHORTCUTS")}
        _set(kept | {"TIDEGATE_HOME": str(self.home)} | self._connections)
        try:
            yield
        finally:
            _set(before)

    def deliver(self, number: int, files: Files) -> None:
        """Write files under a temporary name and rename them, as a careful producer does."""
        for path, content in files.items():
            target = self.home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{target.name}")
            aside.write_bytes(content.encode() if isinstance(content, str) else content)
            aside.rename(target.with_name(f"{number:05}-{target.name}"))

    def outcome(self) -> Mapping[str, Rows]:
        """Return the rows of every sink, and of the state of every operator."""
        graph = self.pipeline.coordinator.graph
        with self.here():
            rows = {f"sink {name}": self._rows(name, sink) for name, sink in self._sinks.items()}
            for vertex in graph.operators:
                if isinstance(vertex, KeyedVertex):
                    state = read_state(graph.pipeline.name, vertex.name)
                    rows[f"state of {vertex.name}"] = state.read_all().to_pylist()
        return rows

    def _rows(self, name: str, sink: Any) -> Rows:
        if name in self.shown:
            return self.shown[name](sink)
        if isinstance(sink, PostgresSink):
            return table_rows(sink)
        if isinstance(sink, ReadableSink):
            frame = sink.read_table(self.session)
            return [] if frame is None else frame.toArrow().to_pylist()
        rows: Rows = read(self.pipeline.coordinator.graph.pipeline, name).arrow()[name].to_pylist()
        return rows


@contextmanager
def crash_world(
    pipeline: "Pipeline | Callable[[], Pipeline]", session: "SparkSession", shown: Shown, only: str = ""
) -> Iterator[CrashWorld]:
    """Create a project for one pipeline, and remove it at the end."""
    with TemporaryDirectory(prefix="tidegate-crash-") as home:
        world = CrashWorld(Path(home).resolve(), session, shown, only)
        with world.here():
            end = world.begin(copy.deepcopy(pipeline) if isinstance(pipeline, Pipeline) else pipeline())
        try:
            yield world
        finally:
            with world.here():
                end()


def require_equal(found: Mapping[str, Rows], expected: Mapping[str, Rows], when: str) -> None:
    """Raise `AssertionError` if any of a pipeline's tables and states differ."""
    for name, rows in expected.items():
        seen, wanted = counted(found[name]), counted(rows)
        assert seen == wanted, f"{when}: {name} has {seen.total()} rows{difference(seen, wanted)}"


def table_rows(sink: PostgresSink) -> Rows:
    """Return the rows of a table as readers see them, with all columns."""
    with connected(sink.connection, sink.target) as connection:
        if not inspect(connection).has_table(sink.target.name, sink.target.schema):
            return []
        table = Table(sink.target.name, MetaData(), schema=sink.target.schema, autoload_with=connection)
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def _database(server: EmbeddedPostgres, name: str) -> str:
    """Create a database and return its URL for the owner, who creates the sinks' tables there."""
    server.create_database(name)
    return server.url(name)


def _set(variables: Mapping[str, str]) -> None:
    """Replace all `TIDEGATE_…` variables with these."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        del os.environ[name]
    os.environ.update(variables)
