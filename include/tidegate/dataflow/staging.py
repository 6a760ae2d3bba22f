"""The facts that a job needs about a sink whose rows it stages. Executors import this module, so it has no
dependencies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.ports import SinkWriter
from tidegate.protocol.facts.records import StateHandle


@dataclass(frozen=True, slots=True)
class Had:
    """The state of a subtask as a sink of upserts has it: the contents of these runs after rows up to the `horizon`
    expired."""

    runs: tuple[StateHandle, ...]
    horizon: int | None


@dataclass(frozen=True, slots=True)
class Staging:
    """A sink whose rows are staged where they are produced.

    With `current`, all rows of the subtask are staged, not only the changed ones. `identity` changes when the sink's
    definition changes, and is recorded in its handles. With `upserts` the sink receives the differences from the state
    that it `had`, by subtask. If `had` is empty, the sink lacks rows and receives all. A sink whose table it cannot
    empty then also receives the keys that the state no longer has since `base`.
    """

    operator_id: str
    writer: SinkWriter
    current: bool
    attempts: Mapping[int, int]
    identity: str
    upserts: bool = False
    had: Mapping[int, Had] = field(default_factory=dict)
    base: Mapping[int, Had] = field(default_factory=dict)
