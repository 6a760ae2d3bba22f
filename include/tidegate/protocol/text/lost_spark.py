"""Which of Spark's errors say that Spark itself is away, by their text alone, and what a Connect client's error says.

Spark may be a JVM of this process or a server elsewhere. What calls it raises the errors of py4j, gRPC and PySpark, and
Great Expectations passes on their texts only. A repetition helps against such an error, and correcting nothing does.
Pure.
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
#: What starting Spark says of a setting, which no repetition corrects.
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
    """Whether an error of Spark, py4j or gRPC says that Spark is away. Performs no I/O."""
    kinds = type(error).__mro__
    if not any(kind.__module__.partition(".")[0] in _OF_SPARK for kind in kinds):
        return False
    return type(error).__name__ in ("Py4JNetworkError", "Py4JError") or says_gone(str(error))


def lost_error(text: str, what: str) -> SparkUnavailableError:
    """What to raise in place of an error with this text that `is_lost`; `what` was done on Spark. Performs no I/O."""
    return SparkUnavailableError(
        f"Spark was lost while {what} ({details_of(text)}). Committed data is untouched. See whether Spark runs, "
        "then repeat it."
    )


def says_gone(text: str) -> bool:
    """Whether the text of an error of Spark's says that nothing more can be asked of it. Performs no I/O."""
    return any(sign in text for sign in _GONE)


def says_wrong_setting(text: str) -> bool:
    """Whether the text of an error of starting or reaching Spark names what the user has set. Performs no I/O."""
    return any(sign in text for sign in _WRONG)


def details_of(text: str) -> str:
    """The sentence within a gRPC error, and else the first line of the text, without a full stop. Performs no I/O."""
    found = _DETAILS.search(text)
    said = _ADDRESS.sub("", found.group(1)) if found else (text.strip().splitlines() or [""])[0]
    return said.strip().rstrip(".")[:500]
