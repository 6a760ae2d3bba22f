"""Metrics as a collector gets them: a process of its own, and a real HTTP server that understands OTLP."""

import json
import os
import subprocess
import sys
import time

from cases import for_each
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from receivers import receiving

from tidegate.protocol.observing.gauges import PARTS, UNITS

PROCESS = """
import json, os, sys, time
from datetime import UTC, datetime
from tidegate.protocol.observing.lag import SourceLag
from tidegate.reporting.configured import configured_meters
(meter,) = configured_meters()
for pipeline, figures, *parts in json.load(sys.stdin):
    lag = [SourceLag("clicks", 0, "rows", -1, datetime.now(UTC), known) for known in parts]
    meter.record(pipeline, figures, lag)
begun = time.monotonic()
try:
    meter.flush()
except Exception as error:
    print(type(error).__name__, file=sys.stderr)
print(time.monotonic() - begun, flush=True)
os._exit(0)  # as the process of an Airflow task ends
"""


def figures(number):
    return dict.fromkeys(UNITS, number)


def export(recorded, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", PROCESS], input=json.dumps(recorded), env=kept | environment,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip


def points(receiver):
    """The newest value of each gauge, by name and pipeline; attributes beside it."""
    found = {}
    for request in receiver.requests:
        for of_resource in ExportMetricsServiceRequest.FromString(request.body).resource_metrics:
            for metric in (each for scope in of_resource.scope_metrics for each in scope.metrics):
                for point in metric.gauge.data_points:
                    attributes = {each.key: each.value.string_value for each in point.attributes}
                    of_part = [attributes["partition"]] if "partition" in attributes else []
                    found[(metric.name, attributes["pipeline"], *of_part)] = point.as_int, attributes, metric.unit
    return found


def test_a_collector_gets_every_figure_of_each_pipeline():
    with receiving() as collector:
        collector.answer = lambda request: 200
        recorded = [("p", figures(1)), ("q", figures(9)), ("p", figures(2), {"0": 7, "1": 8})]
        export(recorded, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        known = points(collector)
    of_parts = [known.pop((PARTS, "p", part)) for part in "01"]
    named = [{"pipeline": "p", "source": "clicks", "partition": part} for part in "01"]
    assert of_parts == [(7, named[0], "{record}"), (8, named[1], "{record}")]
    assert {request.path for request in collector.requests} == {"/v1/metrics"}
    assert known.keys() == {(name, pipeline) for name in UNITS for pipeline in "pq"}
    assert {value for (_, pipeline), (value, _, _) in known.items() if pipeline == "p"} == {2}
    assert all(attributes == {"pipeline": pipeline} for (_, pipeline), (_, attributes, _) in known.items())
    assert known["numberOfFailedCheckpoints", "q"] == (9, {"pipeline": "q"}, "{checkpoint}")
    assert known["lastCheckpointDuration", "p"] == (2, {"pipeline": "p"}, "ms")


@for_each("given", [None, "mine"])
def test_the_service_is_called_tidegate_unless_it_has_a_name(given):
    with receiving() as collector:
        collector.answer = lambda request: 200
        named = {} if given is None else {"OTEL_SERVICE_NAME": given}
        export([("p", figures(1))], OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{collector.url}/v1/metrics", **named)
        sent = ExportMetricsServiceRequest.FromString(collector.requests[0].body)
    attributes = {each.key: each.value.string_value for each in sent.resource_metrics[0].resource.attributes}
    assert attributes["service.name"] == (given or "tidegate")


def test_a_collector_that_does_not_answer_holds_up_nobody_for_long():
    with receiving() as collector:
        collector.answer = lambda request: time.sleep(60) or 200
        ended = export([("p", figures(1))], OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert float(ended.stdout) < 8


def test_the_console_is_an_exporter_too():
    ended = export([("p", figures(3))], OTEL_METRICS_EXPORTER="console")
    assert '"name": "lastCompletedCheckpointId"' in ended.stdout
