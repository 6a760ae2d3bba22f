"""What a job needs to know of a sink whose rows it stages. Executors import this module, so it stands alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.ports import SinkWriter
from tidegate.protocol.facts.records import StateHandle


@dataclass(frozen=True, slots=True)
class Had:
    """The state of a subtask as a sink of upserts has it: what these runs held when rows up to the `horizon` had
    expired."""

    runs: tuple[StateHandle, ...]
    horizon: int | None


@dataclass(frozen=True, slots=True)
class Staging:
    """A sink whose rows are staged where they are produced. `current`: all rows of the subtask, not only the changed
    ones. `identity` changes when the sink's definition changes; its handles carry it. With `upserts` the sink is given
    how the state differs from what it `had`, by subtask; if that is empty, it lacks rows, and is given all.
    """

    operator_id: str
    writer: SinkWriter
    current: bool
    attempts: Mapping[int, int]
    identity: str
    upserts: bool = False
    had: Mapping[int, Had] = field(default_factory=dict)
