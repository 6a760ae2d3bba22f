"""Tidegate's steps as Airflow tasks. May import `assembly`, `ui` and, inside functions, the packages below.

Reading order: `dag` (the wiring), `request`, `operators`, `sensor` and `abort` (one class a step), `step` (the base of
all steps), `outcome` (the errors worth a retry), `running_region` and `spark_connection` (Spark for a step), `triggers`
(waiting in the triggerer), `assets` (schedules of other DAGs), `links`, `callbacks` and `stats` (notifications),
`restore`, `maintenance` and `watch` (a DAG of its own each).

Every DAG parse imports these modules, so they import Airflow and nothing heavier. The public names are imported on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.airflow.abort import AbortCheckpointOperator
    from tidegate.airflow.assets import sink_asset
    from tidegate.airflow.dag import checkpoint_dag
    from tidegate.airflow.maintenance import CleanOperator, maintenance_dag
    from tidegate.airflow.operators import (
        FinalizeCheckpointOperator,
        NotifyCheckpointOperator,
        SnapshotOperator,
        ValidateCheckpointOperator,
    )
    from tidegate.airflow.request import TriggerCheckpointOperator
    from tidegate.airflow.restore import RestoreOperator, restore_dag
    from tidegate.airflow.sensor import AcknowledgeCheckpointSensor
    from tidegate.airflow.watch import WatchOperator, watch_dag

__all__ = [
    "checkpoint_dag", "sink_asset", "TriggerCheckpointOperator", "SnapshotOperator", "AcknowledgeCheckpointSensor",
    "ValidateCheckpointOperator", "FinalizeCheckpointOperator", "NotifyCheckpointOperator", "AbortCheckpointOperator",
    "restore_dag", "RestoreOperator", "maintenance_dag", "CleanOperator", "watch_dag", "WatchOperator",
]  # fmt: skip

_PUBLIC = {
    "checkpoint_dag": "tidegate.airflow.dag",
    "sink_asset": "tidegate.airflow.assets",
    "TriggerCheckpointOperator": "tidegate.airflow.request",
    "SnapshotOperator": "tidegate.airflow.operators",
    "AcknowledgeCheckpointSensor": "tidegate.airflow.sensor",
    "ValidateCheckpointOperator": "tidegate.airflow.operators",
    "FinalizeCheckpointOperator": "tidegate.airflow.operators",
    "NotifyCheckpointOperator": "tidegate.airflow.operators",
    "AbortCheckpointOperator": "tidegate.airflow.abort",
    "restore_dag": "tidegate.airflow.restore",
    "RestoreOperator": "tidegate.airflow.restore",
    "maintenance_dag": "tidegate.airflow.maintenance",
    "CleanOperator": "tidegate.airflow.maintenance",
    "watch_dag": "tidegate.airflow.watch",
    "WatchOperator": "tidegate.airflow.watch",
}

if not TYPE_CHECKING:  # a type checker would accept every other name as one of these

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tidegate.airflow' has no attribute {name!r}")
        return getattr(import_module(_PUBLIC[name]), name)
