"""How long the history of a simulated pipeline is, and what may become of it."""

from random import Random
from typing import TYPE_CHECKING

from simulator.scheduler import require
from tidegate.pipeline.history import CheckpointHistory
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind

if TYPE_CHECKING:
    from memory_state import PipelineState


def draw_history(seed: int) -> CheckpointHistory:
    """Mostly longer than any run. Drawn apart, so that other runs stay what they were."""
    random = Random(f"history {seed}")
    if random.random() < 0.9:
        return CheckpointHistory()
    return CheckpointHistory(random.choice([1, 2, 4, None]), random.choice([None, None, "10 s", "5 min"]))


def check_rolled_up(before: "PipelineState", after: "PipelineState") -> None:
    """Only what nobody can need any more loses its subtasks, and nothing else of it changes."""
    for id_ in after.rolled_up - before.rolled_up:
        record = after.checkpoints[id_]
        require(record == before.checkpoints[id_], f"checkpoint {id_} has changed when it was rolled up")
        require(record.kind is CheckpointKind.CHECKPOINT, f"a savepoint, {id_}, is rolled up")
        gone = record.status is Status.FAILED or (record.status is Status.DISCARDED and record.notified_at is not None)
        require(gone, f"checkpoint {id_} is rolled up, but it is {record.status} and its sinks may need it")
    for id_, record in after.checkpoints.items() if after.rolled_up != before.rolled_up else ():
        if record.status in (Status.IN_PROGRESS, Status.COMPLETED, Status.SUBSUMED):
            require(len(after.subtasks[id_]) == record.num_subtasks, f"subtasks of checkpoint {id_} are gone")
