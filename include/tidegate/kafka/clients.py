"""Clients of Kafka's brokers, and what their errors mean.

A call that gets no answer fails with a timeout that says nothing. Why it got none is told to a callback, so each client
remembers what it has heard.
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

#: Seconds until a broker must have answered.
TIME_LIMIT = 30.0
_LOG = logging.getLogger(__name__)
#: Of no use where others have been heard: it only counts them.
_COUNTS_OTHERS = "_ALL_BROKERS_DOWN"
#: Codes that no time mends.
_REFUSED = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNSUPPORTED_SASL_MECHANISM"}


class ClientErrors:
    """The last errors that a client has reported on its own."""

    def __init__(self) -> None:
        self._errors: deque[KafkaError] = deque(maxlen=8)

    def __call__(self, error: "KafkaError") -> None:
        self._errors.append(error)

    def forget(self) -> None:
        """What was heard before a question says nothing about its answer."""
        self._errors.clear()

    def why(self, error: "KafkaError") -> str:
        """The most telling text there is for an error that a call has raised."""
        told = [each for each in self._errors if each.name() != _COUNTS_OTHERS]
        return f"{told[-1].name()}: {told[-1].str()}" if told else f"{error.name()}: {error.str()}"

    def is_refused(self, error: "KafkaError") -> bool:
        """Whether the brokers are there and refuse this client: no repetition helps."""
        return any(each.name() in _REFUSED or "SSL handshake failed" in each.str() for each in (error, *self._errors))


def require_client() -> None:
    """Raises `NotInstalledError` if confluent-kafka is not installed."""
    if find_spec("confluent_kafka") is None and (error := not_installed("confluent_kafka")) is not None:
        raise error


def configured(brokers: Brokers, client_errors: ClientErrors, **own: Any) -> dict[str, Any]:
    """What a client is made with; underscores in the names of `own` stand for dots."""
    ours = {name.replace("_", "."): value for name, value in own.items()}
    return {"client.id": "tidegate", **brokers.settings, **ours, "error_cb": client_errors, "logger": _LOG}


def unusable(brokers: Brokers, error: "KafkaError") -> ConfigurationError:
    """librdkafka's own text names the setting, and shows its value only where it is none of a fixed few."""
    return ConfigurationError(
        f"The settings of connection {brokers.connection!r} to Kafka cannot be used: {error.str()}. Nothing was "
        "changed. Correct them."
    )


def admin_of(brokers: Brokers) -> "tuple[AdminClient, ClientErrors]":
    """This process's client for questions. Raises `ConfigurationError`, `NotInstalledError`."""
    return _admin_of(os.getpid(), brokers)


@lru_cache(maxsize=16)
def _admin_of(process: int, brokers: Brokers) -> "tuple[AdminClient, ClientErrors]":
    """After a fork, its threads are the parent's."""
    require_client()
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client_errors = ClientErrors()
    try:
        return AdminClient(configured(brokers, client_errors)), client_errors
    except KafkaException as error:
        raise unusable(brokers, error.args[0]) from error


def consumer_of(brokers: Brokers, **own: Any) -> "tuple[Consumer, ClientErrors]":
    """A consumer that reads committed rows alone, commits no offsets, and says where a partition ends. Raises
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


def consume(consumer: "Consumer", most: int, patience: float) -> "list[Message]":
    """Up to so many messages and events, as soon as there is one; none if none has come for so many seconds."""
    first = consumer.consume(1, patience)
    return [*first, *consumer.consume(most - 1, 0)] if first and most > 1 else first


def producer_of(brokers: Brokers, **own: Any) -> "tuple[Producer, ClientErrors]":
    """A producer. Raises `ConfigurationError`, `NotInstalledError`."""
    require_client()
    from confluent_kafka import KafkaException, Producer

    client_errors = ClientErrors()
    try:
        return Producer(configured(brokers, client_errors, **own)), client_errors
    except KafkaException as error:
        raise unusable(brokers, error.args[0]) from error
