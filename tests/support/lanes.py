"""Pytest plugin: which tests run beside each other, in which order, and in which lane of the run.

Tests that run beside each other share nothing: a file stays in one lane. What takes longest begins first, so that no
lane waits for another in the end.
"""

import gc

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: Folders whose tests share a server that takes a minute to start: one lane takes all of them.
TOGETHER = ("tests/scheduler/",)

#: Where tests use a Spark session in their own process (the fixture `spark`). A lane that has taken one of these has a
#: JVM, of which the start and the first checkpoints cost as much as a dozen others.
ON_SPARK = (
    "tests/connectors/test_csv_writers.py",
    "tests/connectors/test_file_reading.py",
    "tests/connectors/test_parquet_sink_spark.py",
    "tests/faults/",
    "tests/quality/",
    "tests/spark/",
    "tests/state/test_hashing.py",
)
LANES_ON_SPARK = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is collected stays until the end: the garbage collector need not look through it after every few tests."""
    gc.collect()
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    """Airflow, Spark, long computations, then the rest."""
    if item.nodeid.startswith(TOGETHER):
        return 0
    if item.get_closest_marker("spark") is not None or item.nodeid.startswith(ON_SPARK):
        return 1
    return 2 if item.nodeid.startswith("tests/simulation/") else 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> "Lanes":
    return Lanes(config, log)


class Lanes(LoadScopeScheduling):
    """A file stays together, and so does a folder of `TOGETHER`. Few lanes start a JVM, if there is other work."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._on_spark: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        """A lane on Spark takes what needs Spark first, another one last."""
        may = node in self._on_spark or len(self._on_spark) < LANES_ON_SPARK
        fitting = (scope for scope in self.workqueue if scope.startswith(ON_SPARK) == may)
        if (scope := next(fitting, None)) is not None:
            self.workqueue.move_to_end(scope, last=False)
        if next(iter(self.workqueue)).startswith(ON_SPARK):
            self._on_spark.add(node)
        super()._assign_work_unit(node)
