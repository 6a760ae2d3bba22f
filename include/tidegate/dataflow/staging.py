"""What a job needs to know of a sink whose rows it stages. Executors import this module, so it stands alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.ports import SinkWriter


@dataclass(frozen=True, slots=True)
class Staging:
    """A sink whose rows are staged where they are produced. `current`: all rows of the subtask, not only the changed
    ones. `identity` changes when the sink's definition changes; its handles carry it.
    """

    operator_id: str
    writer: SinkWriter
    current: bool
    attempts: Mapping[int, int]
    identity: str
