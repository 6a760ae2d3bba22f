"""What a user reads when Python code in a Spark task fails: the error and its line, and no stack of Java's."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.protocol.facts.errors import CheckpointError, OperatorFailedError, StateIntegrityError
from tidegate.spark.driver.run_job import collect_numbered
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.session.packaging import travel_by_value

WHERE = "operator 'sums' of pipeline 'p'"


def boom(value: Any) -> int:
    raise KeyError(f"no {value}\nsecond line")


def die(batches: Any) -> Any:
    os.kill(os.getpid(), 9)
    yield from batches


def explained(frame: Any) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        frame.collect()
    error = as_checkpoint_error(raised.value, WHERE)
    assert type(error) is OperatorFailedError
    return str(error)


def test_an_error_in_python_is_named_with_its_line(spark: SparkSession) -> None:
    said = explained(spark.range(1).select(F.udf(lambda value: boom(value), "int")("id")))
    line = boom.__code__.co_firstlineno + 1
    assert said.startswith(
        f"Python code failed in {WHERE}: KeyError: 'no 0\\nsecond line' ({__file__}, line {line}, in boom). "
        "Acknowledged snapshots are safe and committed data is untouched; repeating the step resumes this checkpoint."
    )
    assert "\tat " not in said
    assert "Traceback" not in said


class Failing:
    """A plan whose first number fails in this way."""

    def __init__(self, how: Callable[[Any], Any]) -> None:
        self.how = how

    def run(self, numbers: Iterable[int]) -> Iterator[Any]:
        for number in numbers:
            yield self.how(number)


def failed(spark: SparkSession, how: Callable[[Any], Any]) -> CheckpointError:
    travel_by_value({sys.modules[__name__]})
    with pytest.raises(CheckpointError) as raised:
        collect_numbered(spark, Failing(how), 1, WHERE)
    return raised.value


def test_an_error_without_a_frame_says_the_same(spark: SparkSession) -> None:
    said = str(failed(spark, boom))
    line = boom.__code__.co_firstlineno + 1
    assert said.startswith(
        f"Python code failed in {WHERE}: KeyError: 'no 0\\nsecond line' ({__file__}, line {line}, in boom). "
        "Acknowledged snapshots are safe and committed data is untouched; repeating the step resumes this checkpoint."
    )
    assert "\tat " not in said


def test_an_error_of_ours_comes_back_whole_without_a_frame(spark: SparkSession) -> None:
    def damaged(_: Any) -> None:
        with carried_to_driver():
            raise StateIntegrityError("p/chk-3/run.parquet is damaged.\n\tat the third row")

    error = failed(spark, damaged)
    assert (type(error), str(error)) == (StateIntegrityError, "p/chk-3/run.parquet is damaged.\n\tat the third row")


def test_a_worker_that_was_killed_without_a_frame_is_said_to_have_died(spark: SparkSession) -> None:
    said = str(failed(spark, lambda number: list(die([number]))))
    assert said.startswith(f"A Python worker died while Spark ran {WHERE}: it was killed, which the system also does")


def test_a_worker_that_was_killed_is_said_to_have_died(spark: SparkSession) -> None:
    said = explained(spark.range(1).mapInArrow(die, "id bigint"))
    assert said.startswith(f"A Python worker died while Spark ran {WHERE}: it was killed, which the system also does")
    assert "repeating the step resumes this checkpoint" in said


TWO_FRAMES = """Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
    ^^^
  File "b c.py", line 22, in <lambda>
    raise X
lib.X: one.

two

JVM stacktrace:
	at java"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Traceback (most recent call last):\nValueError: x.",
            "Traceback (most recent call last): ValueError: x. Acknowledged",
        ),
        (TWO_FRAMES, "lib.X: one. two (b c.py, line 22, in <lambda>). Acknowledged"),
    ],
    ids=["no frame", "two frames"],
)
def test_the_last_frame_counts(text: str, expected: str) -> None:
    assert str(as_checkpoint_error(RuntimeError(text), WHERE)).startswith(f"Python code failed in {WHERE}: {expected}")


PROGRAM = """
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.session.sessions import SparkSettings, open_session
session = open_session(SparkSettings(master="local[1]"))
from pyspark.sql import functions as F
try:
    session.range(1).select(F.udf(lambda value: 1 // value, "int")("id")).collect()
except Exception as error:
    print(as_checkpoint_error(error, "operator sum"))
"""


def test_what_spark_prints_is_in_a_file_that_the_error_names(tmp_path: Path) -> None:
    log = tmp_path / ".tidegate" / "spark.log"
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith(f"Spark's own messages are in {log}.\n")
    assert ended.stdout.startswith("Python code failed in operator sum: ZeroDivisionError: ")
    assert "ZeroDivisionError" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
