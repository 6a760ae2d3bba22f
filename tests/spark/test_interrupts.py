"""Interrupts of the thread that waits for Spark jobs."""

import _thread
import signal
import time
import weakref
from threading import Timer
from types import SimpleNamespace

import pytest

from tidegate import FileSource, ParquetSink, Pipeline
from tidegate.assembly import definition_problems
from tidegate.pipeline.graph import compile_graph
from tidegate.spark.driver.interrupts import noting_interrupts
from tidegate.spark.driver.jobs import SparkJobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60)]


class Dropped:
    """Something that a weak reference may lead to."""


@pytest.fixture(autouse=True)
def _interruptible():
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGTERM, before) is signal.default_int_handler


@pytest.fixture
def interrupted(spark):
    """Waits for jobs that never end, after what the test does in that thread. Tells how many seconds it waited."""
    jobs = SparkJobs(None, SimpleNamespace(session=spark), None)

    def wait(before_it):
        with jobs.at_once("waiting", 1) as at_once:
            before_it()
            at_once.news()

    def run(before_it):
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait(before_it)
        return time.monotonic() - began

    return run


def terminate():
    signal.raise_signal(signal.SIGTERM)


def test_an_interrupt_just_before_the_wait_is_heard(interrupted):
    """Python has noted the signal, and it no longer ends the wait, which has begun since. `interrupt_main` does the
    same: it notes a signal that nobody has sent."""
    assert interrupted(Timer(0.5, _thread.interrupt_main, (signal.SIGTERM,)).start) < 30


def terminate_within_a_callback():
    """Of a weak reference: Python ignores what it raises."""
    called = []
    dropped = Dropped()
    reference = weakref.ref(dropped, lambda reference: (called.append(reference), terminate()))
    del dropped
    assert called == [reference]


def test_an_interrupt_within_a_callback_of_a_weak_reference_is_heard(interrupted):
    assert interrupted(terminate_within_a_callback) < 30


def test_an_interrupt_while_a_definition_is_checked_is_raised_in_the_end(spark, tmp_path):
    called = []

    def transform(rows):
        terminate_within_a_callback()
        called.append(rows)
        return rows

    pipeline = Pipeline("shop", parallelism=1)
    orders = pipeline.source("orders", FileSource(str(tmp_path / "landing"), schema="customer string, amount int"))
    orders.transform(transform).sink("orders", ParquetSink(str(tmp_path / "orders")))
    with pytest.raises(KeyboardInterrupt):
        definition_problems(compile_graph(pipeline), spark)
    assert called


def test_an_interrupt_that_nobody_took_is_raised_in_the_end():
    noted = []
    with pytest.raises(KeyboardInterrupt), noting_interrupts(lambda: noted.append("first")):
        terminate()
    assert noted == ["first"]


def test_the_handler_of_a_classic_session_is_replaced_meanwhile(spark):
    """PySpark's own calls Java in the midst of whatever the thread is doing."""
    pyspark = signal.getsignal(signal.SIGINT)
    assert pyspark.__module__ == "pyspark.core.context"
    with noting_interrupts():
        assert signal.getsignal(signal.SIGINT) is not pyspark
    assert signal.getsignal(signal.SIGINT) is pyspark


def test_a_handler_that_ends_a_run_in_its_own_way_stays():
    signal.signal(signal.SIGTERM, own := lambda number, frame: None)
    with noting_interrupts():
        assert signal.getsignal(signal.SIGTERM) is own
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def test_a_second_interrupt_is_raised_at_once():
    reached = []

    def wait():
        with noting_interrupts():
            terminate()
            reached.append("noted")
            terminate()
            reached.append("ignored")

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert reached == ["noted"]
