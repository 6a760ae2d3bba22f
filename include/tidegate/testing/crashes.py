"""`crash_test`: a user's pipeline, killed before and after every effect, compared with an undisturbed one."""

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
    """The extent of a crash test.

    Attributes:
        checkpoints: The number of checkpoints that were compared.
        crashes: The number of them that were killed once.
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

    Both run in a project of their own, in temporary directories with an embedded database. Each connection of a
    `PostgresSink` is a database there too. An effect is a transaction, a write to the checkpoint storage, a call of a
    sink, or a statement of a sink in the commit. After each crash the checkpoint is run again, and every sink and the
    state of every operator are compared. If anything differs, an `AssertionError` names the place where the process was
    killed, and the rows that differ.

    Args:
        pipeline: The pipeline, or a function that returns it. Its paths are relative to the project's home.
        files: The content of the files that arrive for each checkpoint, by path. The list is used cyclically. A number
            is put in front of file names, so that they differ each time.
        spark: The session. By default the configured one.
        shown: A function for each sink, by its name, that reads its rows. Needed for sinks that are neither a
            `tidegate.ports.ReadableSink` nor a `ReadableAtSink`.
        every: Test every n-th effect only. 1 tests all.
        only: Test only effects whose name contains this: `transaction`, `write`, or the class of a sink.

    Returns:
        The number of checkpoints compared and killed.

    Raises:
        ConfigurationError: If a sink's rows cannot be read.

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
