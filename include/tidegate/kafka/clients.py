"""Clients of Kafka's brokers, and the meaning of their errors.

A call without an answer fails with a timeout that has no reason. The client reports the reason to a callback, so every
client here remembers the errors of its callback.
"""

import logging
import os
from collections import deque
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tidegate.kafka.connections import Brokers
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.text.installed import not_installed

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient

#: Seconds to wait for a broker's answer.
TIME_LIMIT = 30.0
_LOG = logging.getLogger(__name__)
#: An error that only counts others, and is of no use where those were reported.
_COUNTS_OTHERS = "_ALL_BROKERS_DOWN"
#: Codes of errors that do not pass with time.
_REFUSED = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNSUPPORTED_SASL_MECHANISM"}


class ClientErrors:
    """The last errors that a client has reported by itself."""

    def __init__(self) -> None:
        self._errors: deque[KafkaError] = deque(maxlen=8)

    def __call__(self, error: "KafkaError") -> None:
        self._errors.append(error)

    def forget(self) -> None:
        """Forget the errors from before a request: they do not explain its result."""
        self._errors.clear()

    def why(self, error: "KafkaError") -> str:
        """Return the most specific text for an error that a call has raised."""
        reported = [each for each in self._errors if each.name() != _COUNTS_OTHERS]
        return f"{reported[-1].name()}: {reported[-1].str()}" if reported else f"{error.name()}: {error.str()}"

    def is_refused(self, error: "KafkaError") -> bool:
        """Whether the brokers are reachable but refuse this client, so that no repetition helps."""
        return any(each.name() in _REFUSED or "SSL handshake failed" in each.str() for each in (error, *self._errors))


def require_client() -> None:
    """Raise `NotInstalledError` if confluent-kafka is not installed."""
    if find_spec("confluent_kafka") is None and (error := not_installed("confluent_kafka")) is not None:
        raise error


def configured(brokers: Brokers, client_errors: ClientErrors, **own: Any) -> dict[str, Any]:
    """Return the settings of a client. Underscores in the names of `own` stand for dots."""
    ours = {name.replace("_", "."): value for name, value in own.items()}
    return {"client.id": "tidegate", **brokers.settings, **ours, "error_cb": client_errors, "logger": _LOG}


def unusable(brokers: Brokers, error: "KafkaError") -> ConfigurationError:
    """Return the error for wrong settings. librdkafka's text names the setting, and quotes only values of fixed
    lists."""
    return ConfigurationError(
        f"The settings of connection {brokers.connection!r} to Kafka cannot be used: {error.str()}. Nothing was "
        "changed. Correct them."
    )


def admin_of(brokers: Brokers) -> "tuple[AdminClient, ClientErrors]":
    """Return this process's client for queries. Raise `ConfigurationError`, `NotInstalledError`."""
    return _admin_of(os.getpid(), brokers)


@lru_cache(maxsize=16)
def _admin_of(process: int, brokers: Brokers) -> "tuple[AdminClient, ClientErrors]":
    """Create a client. It is cached by process: after a fork, its threads belong to the parent."""
    require_client()
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client_errors = ClientErrors()
    try:
        return AdminClient(configured(brokers, client_errors)), client_errors
    except KafkaException as error:
        raise unusable(brokers, error.args[0]) from error


def consumer_of(brokers: Brokers, **own: Any) -> "tuple[Consumer, ClientErrors]":
    """Create a consumer that reads committed rows only, commits no offsets, and reports the ends of partitions. Raise
    `ConfigurationError`, `NotInstalledError`."""
    require_client()
    from confluent_kafka import Consumer, KafkaException

    client_errors = ClientErrors()
    ours = {
        "group_id": "tidegate",  # required by the client; the group has no members and stores no offsets
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "auto_offset_reset": "error",
        "isolation_level": "read_committed",
        **own,
    }
    try:
        return Consumer(configured(brokers, client_errors, **ours)), client_errors
    except KafkaException as error:
        raise unusable(brokers, error.args[0]) from error


def poll_events(consumer: "Consumer", most: int, patience: float) -> "list[Message]":
    """Return up to `most` messages and events, as soon as there is one; none after `patience` seconds without any."""
    first = consumer.consume(1, patience)
    return [*first, *consumer.consume(most - 1, 0)] if first and most > 1 else first


def producer_of(brokers: Brokers, **own: Any) -> "tuple[Producer, ClientErrors]":
    """Create a producer. Raise `ConfigurationError`, `NotInstalledError`."""
    require_client()
    from confluent_kafka import KafkaException, Producer

    client_errors = ClientErrors()
    try:
        return Producer(configured(brokers, client_errors, **own)), client_errors
    except KafkaException as error:
        raise unusable(brokers, error.args[0]) from error
