"""Connections to a topic's brokers: a connection in Airflow, or a variable of the environment.

Both hold the configuration of librdkafka, under its own names, such as `bootstrap.servers`. Only the addresses of
brokers are ever shown, because the rest includes passwords.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.embedded_postgres.locate import airflow_connection, has_airflow
from tidegate.postgres_sink.databases import VARIABLE
from tidegate.protocol.facts.errors import ConfigurationError, MissingConnectionError

#: The default name in Airflow's own operators for Kafka.
DEFAULT = "kafka_default"
SERVERS = "bootstrap.servers"
#: Settings that readers and writers control: the consumer group, positions, isolation, and transactions.
_OWN = {
    "group.id",
    "group.instance.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "auto.offset.reset",
    "isolation.level",
    "transactional.id",
    "enable.idempotence",
}


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of one connection. `settings` are those of librdkafka, by name."""

    connection: str
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def servers(self) -> str:
        """The addresses of the brokers, which may be shown."""
        return str(self.settings[SERVERS])

    def __hash__(self) -> int:
        return hash((self.connection, json.dumps(self.settings, sort_keys=True, default=str)))


def brokers_of(connection: str, environment: Mapping[str, str] | None = None) -> Brokers:
    """Look a connection up in the environment, then in Airflow.

    Raise `MissingConnectionError` if none has that name, `ConfigurationError` if it names no broker."""
    env = os.environ if environment is None else environment
    variable = f"{VARIABLE}{connection.upper()}"
    if given := env.get(variable):
        return _brokers(connection, _parsed(given, f"{variable} is"), f"{variable} has")
    if has_airflow(env) and (found := airflow_connection(connection)) is not None:
        if found.conn_type != "kafka":
            raise ConfigurationError(
                f"The Airflow connection {connection!r} is of type {found.conn_type!r}, but must be of type Kafka. "
                "Nothing was changed. Change its type, or name another connection."
            )
        extra = f"The extra field of the Airflow connection {connection!r}"
        return _brokers(connection, _parsed(found.extra or "{}", f"{extra} is"), f"{extra} has")
    raise MissingConnectionError(
        f"There is no connection {connection!r} to Kafka. Nothing was changed. Define it in Airflow (type Kafka), or "
        f'set {variable} to the settings of librdkafka as JSON, such as {{"{SERVERS}": "broker:9092"}}, for every '
        "process that runs the pipeline."
    )


def _parsed(given: str, what: str) -> Mapping[str, Any]:
    """Parse the settings. Errors do not show the text, not even in part."""
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"{what} no JSON object with settings of librdkafka, such as "
            f'{{"{SERVERS}": "broker:9092"}}. Nothing was changed. Correct it.'
        ) from None
    return found


def _brokers(connection: str, settings: Mapping[str, Any], what: str) -> Brokers:
    if not str(settings.get(SERVERS) or "").strip():
        raise ConfigurationError(f'{what} no "{SERVERS}", the addresses of brokers. Nothing was changed. Add it.')
    return Brokers(connection, {name: value for name, value in settings.items() if name not in _OWN})
