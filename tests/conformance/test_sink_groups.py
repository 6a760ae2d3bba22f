"""Sinks of a group are committed and rewound together, where their first one stands; others by themselves."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from worlds import CapturingRegion, Judge, ManualClock, MemorySink, MemoryStorage, SplitSource

from tidegate import CheckpointConfig, Pipeline
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import Branch, CheckpointStore, CommitAttempt, StateHandle
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot
from tidegate.protocol.recovery.restore_plan import Accepted

CALLS: list[str] = []


class NamedSink(MemorySink):
    """Writes down how it is called."""

    def __init__(self, name: str, group: str | None = None) -> None:
        super().__init__()
        self.name, self.group = name, group

    def describe(self) -> dict[str, Any]:
        return {"type": "NamedSink", "name": self.name}

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        CALLS.append(f"commit {self.name}")

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        CALLS.append(f"rewind {self.name}")

    def commit_group(self, checkpoint_id: int, members: Any, attempt: CommitAttempt) -> None:
        assert [staged[0].path.rpartition("-")[2] for _, staged in members] == [sink.name for sink, _ in members]
        CALLS.append(f"commit {'+'.join(sink.name for sink, _ in members)}")

    def rewind_group(self, checkpoint_id: int, branch: Branch, members: Any, attempt: CommitAttempt) -> None:
        CALLS.append(f"rewind {'+'.join(sink.name for sink, _ in members)} to {checkpoint_id}")


GROUPS = {"a": "lake", "b": None, "c": "other", "d": "lake", "e": None}


@pytest.fixture
def coordinators(store: CheckpointStore) -> Any:
    """Makes coordinators of a pipeline with these sinks."""
    CALLS.clear()
    storage, clock = MemoryStorage(), ManualClock()

    def made(names: str) -> CheckpointCoordinator:
        pipeline = Pipeline("p", parallelism=1, max_parallelism=8, checkpoints=CheckpointConfig(retained=2))
        rows = pipeline.source("src", SplitSource(1))
        for name in names:
            rows.sink(name, NamedSink(name, GROUPS[name]))
        return CheckpointCoordinator(pipeline, store, storage, clock)

    return made


def finalized(coordinator: CheckpointCoordinator) -> int:
    outcome: Any = coordinator.trigger(uuid4().hex)
    id_ = int(outcome.checkpoint_id)

    def snapshot(operator_id: str, attempt: int) -> Snapshot:
        if not operator_id.endswith("-sink"):
            return Snapshot(())
        path = f"chk-{id_}/0-{attempt}-{operator_id.removesuffix('-sink')}"
        return Snapshot((StateHandle(path, HandleKind.STAGED, 1, 1, "0", id_),))

    reports = CapturingRegion(
        lambda task: [Acknowledgement(key, n, snapshot(key.operator_id, n)) for key, n in task.attempts.items()]
    )
    coordinator.snapshot(id_, reports)
    coordinator.validate(id_, Judge(True))
    coordinator.finalize(id_)
    return id_


def test_a_group_is_called_once(coordinators: Any) -> None:
    coordinator = coordinators("abcde")
    for _ in range(2):
        coordinator.notify(finalized(coordinator))
    assert CALLS == ["commit a+d", "commit b", "commit c", "commit e"] * 2
    CALLS.clear()
    coordinator.restore(ToCheckpoint(1), Accepted())
    assert CALLS == ["rewind a+d to 1", "rewind b", "rewind c", "rewind e"]


def test_a_sink_that_the_pipeline_no_longer_has_holds_up_none_of_the_others(coordinators: Any) -> None:
    id_ = finalized(coordinators("abd"))
    with pytest.raises(SinkError, match="staged for sink 'b', which the pipeline no longer has"):
        coordinators("ad").notify(id_)
    assert CALLS == ["commit a+d"]
