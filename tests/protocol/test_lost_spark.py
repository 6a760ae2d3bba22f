"""Which errors say that Spark is away, and that each has the exit code and the retry of something that may pass."""

from cases import for_each

from tidegate.cli.exit_codes import ExitCode, exit_code_of
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    SourceUnavailableError,
    SparkUnavailableError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from tidegate.protocol.text.lost_spark import details_of, is_lost, lost_error, says_gone, says_wrong_setting

GRPC = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.{status}
\tdetails = "{details}"
\tdebug_error_string = "{details}"
>"""
REFUSED = GRPC.format(
    status="UNAVAILABLE",
    details="failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote "
    "host: Connection refused",
)


def of(module: str, name: str = "SomeError") -> type[Exception]:
    return type(name, (Exception,), {"__module__": module})


GONE = [
    (of("pyspark.errors.exceptions.connect")(REFUSED), True),
    (of("grpc._channel")(GRPC.format(status="UNAVAILABLE", details="Socket closed")), True),
    (of("pyspark.errors.exceptions.connect")("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid."), True),
    (of("pyspark.errors.exceptions.captured")("Cannot call methods on a stopped SparkContext."), True),
    (of("py4j.protocol", "Py4JNetworkError")("x"), True),
    (of("py4j.protocol", "Py4JJavaError")("a java.io.IOException"), False),
    (of("pyspark.errors.exceptions.captured")("[UNRESOLVED_COLUMN] nothing"), False),
    (of("grpc._channel")(GRPC.format(status="UNAUTHENTICATED", details="Invalid token")), False),
    (of("shop.orders")("StatusCode.UNAVAILABLE"), False),
    (ValueError("SparkContext was shut down"), False),
]


@for_each(("error", "lost"), GONE)
def test_an_error_says_that_spark_is_away(error: Exception, lost: bool) -> None:
    assert is_lost(error) is lost
    assert is_lost(type("Of", (type(error),), {"__module__": "shop"})(*error.args)) is (
        lost and "Py4J" not in type(error).__name__
    )


def test_the_sentence_within_an_error_of_grpc_is_told_alone() -> None:
    assert details_of(REFUSED) == "Failed to connect to remote host: Connection refused"
    assert details_of(GRPC.format(status="UNAVAILABLE", details=r"it said \"no\".")) == r"it said \"no\""
    assert details_of("one\ntwo") == "one"
    assert details_of("") == ""
    assert "StatusCode" not in str(lost_error(REFUSED, "the command ran"))


def test_what_a_user_has_set_is_not_mended_by_a_repetition() -> None:
    assert says_wrong_setting(GRPC.format(status="UNAUTHENTICATED", details="Invalid token"))
    assert says_wrong_setting("org.apache.spark.SparkException: Could not parse Master URL: 'x'")
    assert not says_wrong_setting(REFUSED)
    assert says_gone(REFUSED)


@for_each("kind", [SparkUnavailableError, StoreUnavailableError, SourceUnavailableError])
def test_what_is_away_is_to_be_repeated(kind: type[CheckpointError]) -> None:
    assert exit_code_of(kind("away")) is ExitCode.UNAVAILABLE
    assert kind("away").retries is None


def test_other_codes_stay() -> None:
    assert exit_code_of(ConfigurationError("wrong")) is ExitCode.USAGE
    assert exit_code_of(UnknownOutcomeError("?")) is ExitCode.OUTCOME_UNKNOWN
    assert ExitCode.UNAVAILABLE == 6
