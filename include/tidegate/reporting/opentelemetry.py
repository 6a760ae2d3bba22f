"""A meter that exports figures by OpenTelemetry, configured by its standard environment variables.

The figures are asynchronous gauges, as Flink's are: a collector reads the latest values. The SDK treats the names of
instruments as case-insensitive and writes them in lower case; views restore Flink's spelling.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.gauges import PARTS, UNITS
from tidegate.protocol.observing.lag import SourceLag
from tidegate.reporting.deadline import within

_GROUP = "opentelemetry_metrics_exporter"
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
#: The seconds that a process waits for a collector before it ends.
PATIENCE = 5.0


class OpenTelemetry:
    """A meter, one for each process: see `opentelemetry_meter`."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._figures: dict[str, Mapping[str, int]] = {}
        self._lag: dict[str, Sequence[SourceLag]] = {}
        meter = provider.get_meter("tidegate")
        for name, unit in UNITS.items():
            meter.create_observable_gauge(name, [self._observed(name)], unit)
        meter.create_observable_gauge(PARTS, [self._parts_observed], UNITS["pendingRecords"])

    def record(self, pipeline_id: str, metrics: Mapping[str, int], lag: Sequence[SourceLag]) -> None:
        self._figures[pipeline_id], self._lag[pipeline_id] = metrics, lag

    def flush(self) -> None:
        within(PATIENCE, lambda: self._provider.force_flush(int(PATIENCE * 1000)))

    def _observed(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            for pipeline_id, figures in list(self._figures.items()):
                yield Observation(figures[name], {"pipeline": pipeline_id})

        return observe

    def _parts_observed(self, options: CallbackOptions) -> Iterable[Observation]:
        for pipeline_id, lags in list(self._lag.items()):
            for lag in lags:
                for part, pending in lag.parts.items():
                    attributes = {"pipeline": pipeline_id, "source": lag.source, "partition": part}
                    yield Observation(pending, attributes)


@cache
def opentelemetry_meter() -> OpenTelemetry:
    """Return the meter of this process. A program that has set up OpenTelemetry by itself keeps its own provider.

    Raises:
        ConfigurationError: If an exporter is not installed.
    """
    provider = metrics.get_meter_provider()
    return OpenTelemetry(provider if isinstance(provider, MeterProvider) else _provider(os.environ))


def _provider(env: Mapping[str, str]) -> MeterProvider:
    names = (env.get("OTEL_METRICS_EXPORTER") or "otlp").split(",")
    readers = [PeriodicExportingMetricReader(_exporter(name.strip(), env)) for name in names]
    named = env.get("OTEL_SERVICE_NAME") or "service.name=" in env.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "tidegate"})
    views = [View(instrument_name=name.lower(), name=name) for name in (*UNITS, PARTS)]
    return MeterProvider(readers, resource, views=views)


def _exporter(name: str, env: Mapping[str, str]) -> MetricExporter:
    """Return an exporter by its name in OpenTelemetry's variables."""
    if name == "otlp":
        protocol = env.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        name = _PROTOCOLS.get(protocol or "http/protobuf", protocol or "")
    exporters = entry_points(group=_GROUP, name=name)
    if not exporters:
        installed = ", ".join(sorted(entry.name for entry in entry_points(group=_GROUP)))
        raise ConfigurationError(
            f"OpenTelemetry's metrics exporter {name!r} is not installed (installed: {installed}). Checkpoints are "
            "not affected. Correct OTEL_METRICS_EXPORTER or OTEL_EXPORTER_OTLP_PROTOCOL, or install the exporter."
        )
    exporter: MetricExporter = next(iter(exporters)).load()()
    return exporter
