"""Errors planted in the rules: each is a mistake somebody could make. None may go unnoticed by the simulator.

`MUTATIONS` maps the sentence that describes a mistake to what it replaces; reading order: `planting`, then the lists.
"""

from mutations import (
    cleaning,
    commits,
    driver,
    emitting,
    expiring,
    fencing,
    files,
    folding,
    forks,
    gates,
    hearing,
    holding,
    requests,
    restores,
    running,
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
    "cleaning",
    "commits",
    "driver",
    "emitting",
    "expiring",
    "fencing",
    "files",
    "folding",
    "forks",
    "gates",
    "hearing",
    "holding",
    "planted",
    "requests",
    "restores",
    "running",
    "running_restores",
    "savepoints",
    "snapshots",
    "steps",
    "stops",
    "windows",
]
