"""A pipeline's figures as Airflow's own metrics, such as `tidegate.PIPELINE.lastCheckpointDuration`, sent where Airflow
sends its metrics.
"""

from collections.abc import Mapping, Sequence

from tidegate.protocol.observing.gauges import PARTS
from tidegate.protocol.observing.lag import SourceLag

_SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")


class AirflowStats:
    """A meter that reports to Airflow's metrics."""

    def record(self, pipeline_id: str, metrics: Mapping[str, int], lag: Sequence[SourceLag]) -> None:
        from airflow.sdk.observability.stats import gauge, normalize_name_for_stats

        pipeline = normalize_name_for_stats(pipeline_id, log_warning=False)
        for name, value in metrics.items():
            gauge(f"tidegate.{pipeline}.{name}", value, tags={"pipeline": pipeline_id})
        for of_source in lag:
            source = normalize_name_for_stats(of_source.source, log_warning=False)
            for part, pending in of_source.parts.items():
                tags = {"pipeline": pipeline_id, "source": of_source.source, "partition": part}
                name = normalize_name_for_stats(part, log_warning=False)
                gauge(f"tidegate.{pipeline}.{source}.{name}.{PARTS}", pending, tags=tags)

    def flush(self) -> None:
        """Do nothing: Airflow sends its metrics itself."""


def airflow_meters() -> list[AirflowStats]:
    """Return Airflow's meter. If Airflow sends no metrics there is none, and no figures are read."""
    from airflow.configuration import conf

    on = any(conf.getboolean("metrics", switch, fallback=False) for switch in _SWITCHES)
    return [AirflowStats()] if on else []
