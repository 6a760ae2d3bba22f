"""Errors planted in the rules: each is a mistake somebody could make. None may go unnoticed by the simulator.

`MUTATIONS` maps the sentence that describes a mistake to what it replaces; reading order: `planting`, then the lists.
"""

from mutations import (
    carrying,
    cleaning,
    commits,
    driver,
    emitting,
    expiring,
    fencing,
    files,
    forks,
    gates,
    hearing,
    holding,
    replacing,
    requests,
    restores,
    running,
    running_expiring,
    running_restores,
    savepoints,
    snapshots,
    steps,
    stops,
    windows,
)
from mutations.planting import MUTATIONS, planted

__all__ = [
    "MUTATIONS",
    "carrying",
    "cleaning",
    "commits",
    "driver",
    "emitting",
    "expiring",
    "fencing",
    "files",
    "forks",
    "gates",
    "hearing",
    "holding",
    "planted",
    "replacing",
    "requests",
    "restores",
    "running",
    "running_expiring",
    "running_restores",
    "savepoints",
    "snapshots",
    "steps",
    "stops",
    "windows",
]
