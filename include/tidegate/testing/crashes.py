"""`crash_test`: a user's own pipeline, killed before and after every effect, against the same pipeline undisturbed."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tidegate.assembly import open_store, open_validator, read_state
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import ReadableSink
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import Settings
from tidegate.testing.crashing import MortalPipeline, sweep
from tidegate.testing.trials import Rows, counted, difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: By path relative to the project's home, the content of files that arrive together.
Files = Mapping[str, "str | bytes"]


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What a crash test has done.

    Attributes:
        checkpoints: The number of checkpoints that were compared.
        crashes: How many of them were killed once.
    """

    checkpoints: int
    crashes: int


def crash_test(
    pipeline: "Pipeline | Callable[[], Pipeline]",
    files: Sequence[Files],
    *,
    spark: "SparkSession | None" = None,
    shown: Mapping[str, Callable[[Any], Rows]] | None = None,
    every: int = 1,
    only: str = "",
) -> CrashReport:
    """Run a pipeline whose process is killed before and after every effect, and compare it with one that is not.

    Both run in a project of their own, in temporary directories with an embedded database. An effect is a transaction,
    a write to the checkpoint storage, or a call of a sink. After each crash the checkpoint is run again, and every sink
    and the state of every operator are compared. If anything differs, an `AssertionError` says where the process was
    killed, and which rows differ.

    Args:
        pipeline: The pipeline, or what makes it. Its paths are relative to the project's home.
        files: What arrives for one checkpoint after the other, by path. It is used in turn. A number in front of the
            names of files makes them others each time.
        spark: The session. By default the one that is configured.
        shown: By name of a sink, how its rows are read, for sinks that are no `tidegate.ports.ReadableSink`.
        every: Of the effects, each such is taken. 1 takes all.
        only: Part of the names of the effects that are taken: `transaction`, `write`, or the class of a sink.

    Returns:
        What was done.

    Raises:
        ConfigurationError: If a sink cannot be read.

    Example:
        ```python
        from tidegate import FileSource, ParquetSink, Pipeline, count
        from tidegate.testing import crash_test

        pipeline = Pipeline("shop")
        orders = pipeline.source("orders", FileSource("landing", schema="customer STRING"))
        orders.key_by("customer").aggregate("customers", n=count()).sink("customers", ParquetSink("tables/customers"))


        def test_a_crash_costs_nothing():
            crash_test(pipeline, [{"landing/a.csv": "customer\\nann\\n"}, {"landing/b.csv": "customer\\nbob\\n"}])
        ```
    """
    with ExitStack() as stack:
        session = _session() if spark is None else spark
        straight, crashed = (stack.enter_context(_world(pipeline, session, shown or {}, only)) for _ in range(2))

        def deliver(number: int) -> None:
            arriving = files[number % len(files)]
            for world in (straight, crashed):
                world.deliver(number, arriving)
            with straight.here():
                straight.pipeline.run(f"straight-{number}")

        def check(when: str) -> None:
            seen = crashed.outcome()
            for name, rows in straight.outcome().items():
                found, expected = counted(seen[name]), counted(rows)
                assert found == expected, f"{when}: {name} has {found.total()} rows{difference(found, expected)}"

        with crashed.here():
            runs, crashes = sweep(crashed.pipeline, deliver, check, every)
        return CrashReport(runs + 1, crashes)


@dataclass
class _World:
    """A project with the pipeline in it."""

    home: Path
    session: "SparkSession"
    shown: Mapping[str, Callable[[Any], Rows]]
    only: str
    pipeline: MortalPipeline = field(init=False)

    def begin(self, pipeline: Pipeline) -> Callable[[], None]:
        """Returns what ends it."""
        self._sinks = {vertex.name: vertex.sink for vertex in pipeline.vertices if isinstance(vertex, SinkVertex)}
        unreadable = [name for name, sink in self._sinks.items() if not self._is_readable(name, sink)]
        if unreadable:
            raise ConfigurationError(
                f"What sink {', '.join(unreadable)} shows cannot be read, so it cannot be compared. Nothing was run. "
                "Give crash_test(…, shown={name: function}) a function that takes the sink and returns its rows."
            )
        settings = Settings.from_environment()
        store = open_store(writes=True)
        self.pipeline = MortalPipeline(
            pipeline,
            store,
            self.session,
            settings,
            lambda graph, region: open_validator(graph, region, settings),
            self.only,
        )

        def end() -> None:
            from tidegate.embedded_postgres.locate import embedded_directory
            from tidegate.embedded_postgres.server import EmbeddedPostgres

            store.close()
            EmbeddedPostgres(embedded_directory(settings)).remove()

        return end

    def _is_readable(self, name: str, sink: object) -> bool:
        return name in self.shown or isinstance(sink, ReadableSink)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Inside, the environment is that of this project."""
        before = {name: value for name, value in os.environ.items() if name.startswith("TIDEGATE_")}
        kept = {name: value for name, value in before.items() if name in ("TIDEGATE_CACHE", "TIDEGATE_SHORTCUTS")}
        _set(kept | {"TIDEGATE_HOME": str(self.home)})
        try:
            yield
        finally:
            _set(before)

    def deliver(self, number: int, files: Files) -> None:
        """Write files aside and rename them, as a careful producer does."""
        for path, content in files.items():
            target = self.home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{target.name}")
            aside.write_bytes(content.encode() if isinstance(content, str) else content)
            aside.rename(target.with_name(f"{number:05}-{target.name}"))

    def outcome(self) -> Mapping[str, Rows]:
        """The rows of every sink, and of the state of every operator."""
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
        frame = sink.read_table(self.session)
        return [] if frame is None else frame.toArrow().to_pylist()


@contextmanager
def _world(
    pipeline: "Pipeline | Callable[[], Pipeline]",
    session: "SparkSession",
    shown: Mapping[str, Callable[[Any], Rows]],
    only: str,
) -> Iterator[_World]:
    with TemporaryDirectory(prefix="tidegate-crash-") as home:
        world = _World(Path(home).resolve(), session, shown, only)
        with world.here():
            end = world.begin(copy.deepcopy(pipeline) if isinstance(pipeline, Pipeline) else pipeline())
        try:
            yield world
        finally:
            with world.here():
                end()


def _session() -> "SparkSession":
    from tidegate.spark.session.sessions import SparkSettings, open_session

    return open_session(SparkSettings.from_environment())


def _set(variables: Mapping[str, str]) -> None:
    """These variables of ours, and no others."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        del os.environ[name]
    os.environ.update(variables)
