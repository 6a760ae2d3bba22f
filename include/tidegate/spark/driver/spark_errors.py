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
#: A frame of a traceback, with the text up to the next frame.
_FRAME = re.compile(r'  File "([^"\n]+)", line (\d+), in ([^\n]+)\n((?:(?!  File ")[^\n]*\n?)*)')

_OF_PYTHON = "org.apache.spark.api.python.PythonException"


def as_checkpoint_error(error: BaseException, where: str) -> CheckpointError:
    """Return the error to raise for an error from Spark or from a user's function. `where` names operator and
    pipeline."""
    if isinstance(error, CheckpointError):
        return error
    text = str(error)
    if carried := carried_from_task(text):
        return carried
    if isinstance(error, AnalysisException | ParseException):
        return PipelineDefinitionError(f"Spark cannot run {where}: {_first_lines(text)} Correct the pipeline.")
    if is_gone(error):
        return SparkUnavailableError(
            f"Spark was lost while it ran {where} ({type(error).__name__}). {jvm_end()}Acknowledged snapshots are "
            "safe, committed data is untouched, and repeating the snapshot step resumes this checkpoint on the "
            "same input."
        )
    if any(sign in text for sign in _WORKER_DIED):
        problem = (
            f"A Python worker died while Spark ran {where}: it was killed, which the system also does when memory runs "
            "out, or its interpreter crashed."
        )
    elif "Traceback" in text:
        problem = f"Python code failed in {where}: {_raised(text)}."
    else:
        problem = f"Spark failed in {where}: {_first_lines(text)}"
    return OperatorFailedError(
        f"{problem} Acknowledged snapshots are safe and committed data is untouched; repeating the step resumes this "
        f"checkpoint. {where_the_log_is()}".rstrip()
    )


def core_error(error: Py4JJavaError) -> PySparkException:
    """Return the error that Spark SQL would raise for an error of a job without it: the message alone, read while the
    JVM exists."""
    raised = error.java_exception
    message = str(raised.getMessage())
    if raised.getClass().getName() != _OF_PYTHON:  # the others have a stack of Java
        message = message.partition("\n\tat ")[0]
    return PySparkException(message=message.strip())


def is_gone(error: BaseException) -> bool:
    """Return whether Spark is lost (JVM killed, Connect server gone), so that no further request can be sent."""
    return isinstance(error, ConnectionError | EOFError) or is_lost(error)


def error_of_function(error: Exception, where: str, message: str) -> CheckpointError:
    """Return the error for a user's function that builds a plan. It may have failed because Spark is lost."""
    return as_checkpoint_error(error, where) if is_gone(error) else PipelineDefinitionError(message)


def _first_lines(text: str) -> str:
    """Return the text without Java's frames."""
    return text.partition(";\n")[0].partition("\n\nJVM stacktrace")[0].partition("\n\tat ")[0].strip()[:1500]


def _raised(text: str) -> str:
    """Return the error at the end of a Python traceback, and the line that raised it."""
    *_, last = [
        ("", "", "", text),
        *(frame.groups() for frame in _FRAME.finditer(text.partition("\n\nJVM stacktrace")[0])),
    ]
    file, line, function, rest = last
    lines = [line_ for line_ in rest.splitlines() if line_ and not line_.startswith(" ")]
    error = " ".join(line_.strip() for line_ in lines).rstrip(".")[:1500]
    return f"{error} ({file}, line {line}, in {function})" if file else error
