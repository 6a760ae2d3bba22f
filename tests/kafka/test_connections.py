"""Where the brokers of a connection are looked up, and what is said of one that cannot be used."""

import json

import pytest

from tidegate.kafka.clients import admin_of, consumer_of, producer_of
from tidegate.kafka.connections import brokers_of
from tidegate.protocol.facts.errors import ConfigurationError, MissingConnectionError

SECRET = "do-not-show"


def env(**settings: str) -> dict[str, str]:
    return {"TIDEGATE_CONNECTION_EVENTS": json.dumps(settings)}


def test_the_environment_has_the_settings_without_those_that_are_tidegates() -> None:
    given = {"bootstrap.servers": "a:9092", "sasl.password": SECRET, "group.id": "mine", "isolation.level": "none"}
    found = brokers_of("events", env(**given))
    assert found.settings == {"bootstrap.servers": "a:9092", "sasl.password": SECRET}
    assert found.servers == "a:9092"
    assert SECRET not in repr(found)


def test_a_connection_that_is_missing_or_makes_no_sense() -> None:
    with pytest.raises(MissingConnectionError, match=r"no connection 'events' to Kafka.*TIDEGATE_CONNECTION_EVENTS"):
        brokers_of("events", {})
    for text in ("broker:9092", '{"sasl.password": "do-not-show"', "[1]"):
        with pytest.raises(ConfigurationError, match="TIDEGATE_CONNECTION_EVENTS is no JSON object") as caught:
            brokers_of("events", {"TIDEGATE_CONNECTION_EVENTS": text})
        assert SECRET not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r'TIDEGATE_CONNECTION_EVENTS has no "bootstrap.servers"'):
        brokers_of("events", env(**{"sasl.password": SECRET}))


def test_a_setting_that_the_client_refuses_is_named_and_no_secret_is_shown() -> None:
    wrong = brokers_of("events", env(**{"bootstrap.servers": "a:1", "sasl.pasword": SECRET}))
    for make in (admin_of, consumer_of, producer_of):
        with pytest.raises(ConfigurationError, match=r'"sasl.pasword"') as caught:
            make(wrong)
        assert SECRET not in str(caught.value)
