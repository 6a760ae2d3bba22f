"""`crash_test`: a user's own pipeline, killed before and after every effect, against the same pipeline undisturbed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.definition import Pipeline
from tidegate.testing.crash_worlds import Files, crash_world, require_equal
from tidegate.testing.crashing import sweep
from tidegate.testing.trials import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

    Both run in a project of their own, in temporary directories with an embedded database, in which each connection of
    a `PostgresSink` is a database, too. An effect is a transaction, a write to the checkpoint storage, a call of a
    sink, or what a sink in the commit does in the transaction. After each crash the checkpoint is run again, and every
    sink and the state of every operator are compared. If anything differs, an `AssertionError` says where the process
    was killed, and which rows differ.

    Args:
        pipeline: The pipeline, or what makes it. Its paths are relative to the project's home.
        files: What arrives for one checkpoint after the other, by path. It is used in turn. A number in front of the
            names of files makes them others each time.
        spark: The session. By default the one that is configured.
        shown: By name of a sink, how its rows are read. Needed for sinks that are neither a
            `tidegate.ports.ReadableSink` nor a `ReadableAtSink`.
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
        straight, crashed = (stack.enter_context(crash_world(pipeline, session, shown or {}, only)) for _ in range(2))

        def deliver(number: int) -> None:
            arriving = files[number % len(files)]
            for world in (straight, crashed):
                world.deliver(number, arriving)
            with straight.here():
                straight.pipeline.run(f"straight-{number}")

        def check(when: str) -> None:
            require_equal(crashed.outcome(), straight.outcome(), when)

        with crashed.here():
            runs, crashes = sweep(crashed.pipeline, deliver, check, every)
        return CrashReport(runs + 1, crashes)


def _session() -> "SparkSession":
    from tidegate.spark.session.sessions import SparkSettings, open_session

    return open_session(SparkSettings.from_environment())
