"""What an error came from is said in a few lines, nearest first, without stacks and without secrets."""

from itertools import pairwise

from tidegate.protocol.facts.errors import StorageError
from tidegate.protocol.text.causes import causes_of

JAVA = """An error occurred while calling o57.collect.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
\tat py4j.Gateway.invoke(Gateway.java:282)
Caused by: java.io.IOException: No space left
\t... 3 more

JVM stacktrace:
org.apache"""
PYTHON = """Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
KeyError: 'k'"""


def chained(*errors):
    for above, below in pairwise(errors):
        above.__cause__ = below
    return errors[0]


def test_each_cause_is_said_without_its_stack():
    error = chained(StorageError("The disk is full."), RuntimeError(JAVA), ValueError(PYTHON))
    assert causes_of(error) == [
        "RuntimeError: An error occurred while calling o57.collect.\n: org.apache.spark.SparkException: Job aborted\n"
        "Caused by: java.io.IOException: No space left",
        "ValueError: KeyError: 'k'",
    ]


def test_what_was_raised_while_another_was_handled_counts_unless_it_was_left_out():
    error = StorageError("away")
    error.__context__ = OSError()
    assert causes_of(error) == ["OSError"]
    error.__suppress_context__ = True
    assert causes_of(error) == []


def test_secrets_are_left_out_and_a_circle_ends():
    below = OSError("postgresql://me:pw@host/db is away")
    error = chained(StorageError("away"), below)
    below.__context__ = error
    assert causes_of(error) == ["OSError: postgresql://***@host/db is away"]
