"""The Airflow assets of a pipeline's sinks, and the check whether a checkpoint was already announced.

An event for checkpoint n means that all rows up to n are visible in that sink; `extra` is `{"checkpoint_id", "rows"}`.
Airflow records the events of a task in the transaction that makes it a success, so they record the announcements. A
task that died before that has no event and announces again; a cleared task has one and must not.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from airflow.sdk import Asset

#: The largest difference between the clocks of Airflow's API server and of the worker that completed the checkpoint.
CLOCK_SKEW = timedelta(hours=1)


def sink_asset(pipeline: str, sink: str) -> Asset:
    """Name the asset of a sink, to schedule another DAG on it: `schedule=[sink_asset("shop", "orders")]`. Its events
    follow when a checkpoint's rows are visible.

    Args:
        pipeline: The name of the pipeline.
        sink: The name of the sink.

    Returns:
        The asset.
    """
    return Asset(uri=f"tidegate://{pipeline}/{sink}")


def unannounced(assets: Iterable[Asset], checkpoint_id: int, completed_at: datetime) -> list[Asset]:
    """Return the assets without an event for the checkpoint. Runs inside a task.

    Raises:
        AirflowRuntimeError: If Airflow does not answer.
    """
    return [asset for asset in assets if checkpoint_id not in _announced(asset, completed_at - CLOCK_SKEW)]


def _announced(asset: Asset, since: datetime) -> set[object]:
    # The source of `context["inlet_events"]`. Declaring the assets as inlets would draw each as its own input.
    from airflow.sdk.execution_time.context import InletEventsAccessor

    events = InletEventsAccessor(asset_name=asset.name, asset_uri=asset.uri).after(since.isoformat())
    return {(event.extra or {}).get("checkpoint_id") for event in events}
