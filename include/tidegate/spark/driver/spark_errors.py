"""Spark's errors as the errors of `protocol/facts/errors.py`, with the text of the original error."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from tidegate.protocol.facts.errors import (
    CheckpointError,
    OperatorFailedError,
    PipelineDefinitionError,
    SparkUnavailableError,
)
from tidegate.protocol.text.lost_spark import is_lost
from tidegate.spark.executor.carried_errors import carried_from_task
from tidegate.spark.session.jvm import where_the_log_is
from tidegate.spark.session.machine import jvm_end

_WORKER_DIED = ("Python worker exited unexpectedly", "Python worker process terminated", "PythonWorkerCrash")
#: A frame of a traceback, and what follows it up to the next.
_FRAME = re.compile(r'  File "([^"\n]+)", line (\d+), in ([^\n]+)\n((?:(?!  File ")[^\n]*\n?)*)')

_OF_PYTHON = "org.apache.spark.api.python.PythonException"


def as_checkpoint_error(error: BaseException, where: str) -> CheckpointError:
    """What to raise for an error that came out of Spark or a user's function. `where` names operator and pipeline."""
    if isinstance(error, CheckpointError):
        return error
    text = str(error)
    if carried := carried_from_task(text):
        return carried
    if isinstance(error, AnalysisException | ParseException):
        return PipelineDefinitionError(f"Spark cannot run {where}: {_first_lines(text)} Correct the pipeline.")
    if is_gone(error):
        return SparkUnavailableError(
            f"Spark was lost while it ran {where} ({type(error).__name__}). {jvm_end()}What was acknowledged is safe, "
            "committed data is untouched, and repeating the snapshot step resumes this checkpoint on the same input."
        )
    if any(sign in text for sign in _WORKER_DIED):
        what = (
            f"A Python worker died while Spark ran {where}: it was killed, which the system also does when memory runs "
            "out, or its interpreter crashed."
        )
    elif "Traceback" in text:
        what = f"Python code failed in {where}: {_raised(text)}."
    else:
        what = f"Spark failed in {where}: {_first_lines(text)}"
    return OperatorFailedError(
        f"{what} What was acknowledged is safe and committed data is untouched; repeating the step resumes this "
        f"checkpoint. {where_the_log_is()}".rstrip()
    )


def core_error(error: Py4JJavaError) -> PySparkException:
    """What Spark SQL would raise for an error of a job without it: the message alone, read while there is a JVM."""
    raised = error.java_exception
    said = str(raised.getMessage())
    if raised.getClass().getName() != _OF_PYTHON:  # which has a stack of its own, and none of Java's
        said = said.partition("\n\tat ")[0]
    return PySparkException(message=said.strip())


def is_gone(error: BaseException) -> bool:
    """Whether Spark itself has gone (JVM killed, Connect server gone), so that nothing more can be asked of it."""
    return isinstance(error, ConnectionError | EOFError) or is_lost(error)


def error_of_function(error: Exception, where: str, message: str) -> CheckpointError:
    """What to raise for an error of a user's function that builds a plan. It may have asked a Spark that has gone."""
    return as_checkpoint_error(error, where) if is_gone(error) else PipelineDefinitionError(message)


def _first_lines(text: str) -> str:
    """Without Java's frames."""
    return text.partition(";\n")[0].partition("\n\nJVM stacktrace")[0].partition("\n\tat ")[0].strip()[:1500]


def _raised(text: str) -> str:
    """The error at the end of a Python traceback, and the line that raised it."""
    *_, last = [
        ("", "", "", text),
        *(frame.groups() for frame in _FRAME.finditer(text.partition("\n\nJVM stacktrace")[0])),
    ]
    file, line, function, rest = last
    said = [each for each in rest.splitlines() if each and not each.startswith(" ")]
    error = " ".join(each.strip() for each in said).rstrip(".")[:1500]
    return f"{error} ({file}, line {line}, in {function})" if file else error
