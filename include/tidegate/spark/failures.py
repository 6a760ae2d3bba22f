"""Spark's errors as the errors of `protocol/errors.py`, in the words of whoever raised them first.

A Spark task's own `CheckpointError` travels as JSON inside the message, because nothing else of it survives the way
through Java (classic) or gRPC (Connect).
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException

from tidegate.protocol import errors
from tidegate.protocol.errors import CheckpointError, PipelineDefinitionError
from tidegate.spark.machine import jvm_end

_OPEN, _CLOSE = "<<tidegate-error:", ":tidegate-error>>"
_MARKED = re.compile(re.escape(_OPEN) + r"(.*?)" + re.escape(_CLOSE), re.DOTALL)
_GONE = (
    "StatusCode.UNAVAILABLE",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Answer from Java side is empty",
    "An error occurred while trying to connect to the Java server",
    "INVALID_HANDLE.SESSION",
    "NO_ACTIVE_SESSION",
)


@contextmanager
def carried_to_driver() -> Iterator[None]:
    """Around a partition function: let its `CheckpointError` reach the driver whole. Spark still retries the task."""
    try:
        yield
    except CheckpointError as error:
        content = json.dumps({"class": type(error).__name__, "message": str(error)})
        raise RuntimeError(f"{_OPEN}{content.encode().hex()}{_CLOSE}") from error


def as_checkpoint_error(error: BaseException, where: str) -> CheckpointError:
    """What to raise for an error that came out of Spark or a user's function. `where` names operator and pipeline."""
    if isinstance(error, CheckpointError):
        return error
    text = str(error)
    if marked := _MARKED.search(text):
        content = json.loads(bytes.fromhex(marked[1]))
        kind = getattr(errors, content["class"], CheckpointError)
        return kind(content["message"]) if issubclass(kind, CheckpointError) else CheckpointError(content["message"])
    if isinstance(error, AnalysisException | ParseException):
        return PipelineDefinitionError(f"Spark cannot run {where}: {_first_lines(text)} Correct the pipeline.")
    if is_gone(error):
        return CheckpointError(
            f"Spark was lost while it ran {where} ({type(error).__name__}). {jvm_end()}What was acknowledged is safe, "
            "committed data is untouched, and repeating the snapshot step resumes this checkpoint on the same input."
        )
    return CheckpointError(
        f"Spark failed in {where}: {_last_lines(text) if 'Traceback' in text else _first_lines(text)} What was "
        "acknowledged is safe and committed data is untouched; repeating the step resumes this checkpoint."
    )


def is_gone(error: BaseException) -> bool:
    """Whether Spark itself has gone (JVM killed, Connect server gone), so that nothing more can be asked of it."""
    if isinstance(error, ConnectionError | EOFError) or type(error).__name__ in ("Py4JNetworkError", "Py4JError"):
        return True
    return (isinstance(error, PySparkException) or "grpc" in type(error).__module__.lower()) and any(
        sign in str(error) for sign in _GONE
    )


def _first_lines(text: str) -> str:
    return text.partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()[:1500]


def _last_lines(text: str) -> str:
    """A Python traceback says what happened at its end."""
    lines = [line.strip() for line in text.partition("\n\nJVM stacktrace")[0].splitlines() if line.strip()]
    return " ".join(lines[-3:])[:1500]
