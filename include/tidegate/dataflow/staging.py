"""What a job is told of a sink whose rows it stages. Executors import this: it stands alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.ports import SinkWriter


@dataclass(frozen=True, slots=True)
class Staging:
    """A sink whose rows are staged where they arise. `current`: all rows of the subtask, not only the changed ones.
    `identity` tells the sink from what it was before somebody changed it; its handles carry it.
    """

    operator_id: str
    writer: SinkWriter
    current: bool
    attempts: Mapping[int, int]
    identity: str
