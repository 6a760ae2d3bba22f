"""What a simulated dataflow consists of: its operators, and its checkpoints, in progress and completed."""

from collections import Counter
from dataclasses import dataclass, field

from tidegate.dataflow.input_gate import InputGate
from tidegate.protocol.subtask.steps import SubtaskSteps

Row = tuple[int, int]  # source, position
Snapshot = tuple[Counter[Row], dict[int, list[Row]]]  # how often each row was seen; what is pre-committed by checkpoint


@dataclass
class Operator:
    """Counts the rows that pass. Of a row that comes straight from its source it knows which one must come next.

    `pending` holds what is pre-committed by checkpoint, for those that end in a sink (protocol.md section 16)."""

    name: int
    inputs: tuple[str, ...]
    gate: InputGate = field(init=False)
    steps: SubtaskSteps = field(init=False)
    seen: Counter[Row] = field(default_factory=Counter)
    passed: list[Row] = field(default_factory=list)
    pending: dict[int, list[Row]] = field(default_factory=dict)
    written: dict[int, Snapshot] = field(default_factory=dict)
    decided: int = 0  # newest checkpoint that its gate has let through or aborted

    def snapshot(self, checkpoint_id: int) -> None:
        self.pending = {**self.pending, checkpoint_id: self.passed}
        self.passed = []
        self.written[checkpoint_id] = self.seen.copy(), dict(self.pending)


@dataclass
class Waiting:
    """A checkpoint in progress: since which step, and what was reported so far."""

    since: int
    positions: dict[int, int] = field(default_factory=dict)
    operators: dict[int, Snapshot] = field(default_factory=dict)


@dataclass
class Completed:
    """A checkpoint as it was stored."""

    checkpoint_id: int
    positions: dict[int, int]
    operators: dict[int, Snapshot]
