"""Which notifiers and meters there are, as the environment says. Nothing is imported for those there are not."""

import logging
import subprocess
import sys

import pytest
from cases import for_each
from worlds import ManualClock, MemorySink, MemoryStorage, small_pipeline

from tidegate.pipeline.graph import compile_graph
from tidegate.reporting.configured import configured_meters, configured_notifiers, pages_url


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def names(**environment):
        graph = compile_graph(small_pipeline(MemorySink()))
        found = configured_notifiers(graph, None, MemoryStorage(), ManualClock(), environment)
        return [each.name for each in found]

    return names


def test_without_configuration_there_is_nobody(names):
    assert names() == []
    assert configured_meters({}) == []


def test_a_webhook_is_an_address_in_the_environment(names):
    assert names(TIDEGATE_WEBHOOK_URL="https://x/hook", TIDEGATE_WEBHOOK_SECRET="s") == ["webhook"]


def test_one_that_is_wrong_is_said_and_left_out(names, caplog):
    assert names(TIDEGATE_WEBHOOK_URL="hidden") == []
    assert caplog.records[0].levelno == logging.ERROR
    assert "TIDEGATE_WEBHOOK_URL" in caplog.text
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("http://:very%20secret@hooks.example:8443/https", "https://hooks.example:8443"),
        ("https://:very%20secret@hooks.example", "https://hooks.example"),
        ('{"conn_type": "http", "host": "https://hooks.example/a/b?c=d", "password": "very secret"}',
         "https://hooks.example/a/b?c=d"),
    ],
)  # fmt: skip
def test_airflows_connection_is_a_webhook_too(names, monkeypatch, uri, address, tmp_path):
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_WEBHOOK", uri)
    graph = compile_graph(small_pipeline(MemorySink()))
    (hook,) = configured_notifiers(graph, None, MemoryStorage(), ManualClock(), {"AIRFLOW_CONN_TIDEGATE_WEBHOOK": uri})
    assert (hook.url, hook.secret) == (address, "very secret")


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENLINEAGE_URL": "http://x"},
        {"OPENLINEAGE__TRANSPORT__TYPE": "console"},
        {"OPENLINEAGE__TRANSPORT": '{"type": "console"}'},
    ],
)
def test_openlineage_is_configured_as_its_clients_are(names, environment):
    assert names(**environment) == ["openlineage"]
    assert names(**environment, OPENLINEAGE_DISABLED="True") == []


def test_its_file_counts_too(names, tmp_path):
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}")
    assert names() == ["openlineage"]


@for_each(
    ("environment", "page"),
    [
        ({}, None),
        ({"TIDEGATE_PAGES_URL": "https://x/pages/"}, "https://x/pages"),
        ({"AIRFLOW__API__BASE_URL": "https://a/b/"}, "https://a/b/tidegate"),
    ],
)
def test_the_pages_are_where_the_environment_says(environment, page):
    assert pages_url(environment) == page


@for_each(
    "environment",
    [{"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}],
)
def test_who_wants_no_metrics_gets_none(environment):
    assert configured_meters(environment) == []


def test_an_exporter_that_is_not_installed_is_said_and_left_out(tmp_path):
    script = "import os; from tidegate.reporting.configured import configured_meters; print(configured_meters())"
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "OTEL_METRICS_EXPORTER": "carrier_pigeon"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert "OpenTelemetry's metrics exporter 'carrier_pigeon' is not installed (installed: console, otlp" in ran.stderr


def test_what_nobody_configured_is_not_imported():
    script = (
        "import sys, tidegate.assembly, tidegate.airflow, tidegate.reporting.configured as c; c.configured_meters({});"
        "clients = ('openlineage', 'opentelemetry.sdk', 'opentelemetry.exporter', 'urllib3', 'requests');"
        "print([name for name in sys.modules if name.startswith(clients)])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
