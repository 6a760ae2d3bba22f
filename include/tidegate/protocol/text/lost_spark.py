"""Recognise by their text the errors which mean that Spark itself is gone, and read the details of a Connect client's
error.

Spark may be a JVM of this process or a server elsewhere. Calls to it raise the errors of py4j, gRPC and PySpark, and
Great Expectations passes on their texts only. Such an error needs a repetition, not a correction. Pure.
"""

import re

from tidegate.protocol.facts.errors import SparkUnavailableError

_GONE = (
    "StatusCode.UNAVAILABLE",
    "StatusCode.DEADLINE_EXCEEDED",
    "RETRIES_EXCEEDED",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Answer from Java side is empty",
    "An error occurred while trying to connect to the Java server",
    "INVALID_HANDLE.SESSION",
    "NO_ACTIVE_SESSION",
    "All masters are unresponsive",
)
#: Errors from starting Spark about a setting, which no repetition corrects.
_WRONG = (
    "Could not parse Master URL",
    "INVALID_CONF_VALUE",
    "CANNOT_MODIFY_CONFIG",
    "CANNOT_MODIFY_STATIC_CONFIG",
    "StatusCode.UNAUTHENTICATED",
    "StatusCode.PERMISSION_DENIED",
    "StatusCode.UNIMPLEMENTED",
)
_OF_SPARK = frozenset({"pyspark", "py4j", "grpc"})
_DETAILS = re.compile(r'details = "(?:.*?last error: )?((?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r"^(?:UNKNOWN: )?(?:ipv[46]:\S+: )?")


def is_lost(error: BaseException) -> bool:
    """Whether an error of Spark, py4j or gRPC means that Spark is gone. Performs no I/O."""
    kinds = type(error).__mro__
    if not any(kind.__module__.partition(".")[0] in _OF_SPARK for kind in kinds):
        return False
    return type(error).__name__ in ("Py4JNetworkError", "Py4JError") or says_gone(str(error))


def lost_error(text: str, what: str) -> SparkUnavailableError:
    """Return the error to raise in place of one with this text that `is_lost`. `what` describes the work that ran on
    Spark. Performs no I/O."""
    return SparkUnavailableError(
        f"Spark was lost while {what} ({details_of(text)}). Committed data is untouched. See whether Spark runs, "
        "then repeat it."
    )


def says_gone(text: str) -> bool:
    """Whether the text of an error means that Spark accepts no further calls. Performs no I/O."""
    return any(sign in text for sign in _GONE)


def says_wrong_setting(text: str) -> bool:
    """Whether the text of an error from starting or reaching Spark is about a setting of the user. Performs no I/O."""
    return any(sign in text for sign in _WRONG)


def details_of(text: str) -> str:
    """Return the sentence within a gRPC error, or else the first line of the text, without a full stop. Performs no
    I/O."""
    match = _DETAILS.search(text)
    details = _ADDRESS.sub("", match.group(1)) if match else (text.strip().splitlines() or [""])[0]
    return details.strip().rstrip(".")[:500]
