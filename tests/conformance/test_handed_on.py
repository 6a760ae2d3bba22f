"""What a step hands on to the next one in the same process is what the store says, also when a transaction was lost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from desks import Desk
from worlds import CapturingRegion, Judge, MortalStore

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import UnknownOutcomeError
from tidegate.protocol.facts.records import Acknowledgement, Snapshot, Verdict
from tidegate.protocol.steps.snapshot import SnapshotTask

Lossy = tuple[Desk, MortalStore]


@pytest.fixture
def lossy(store: CheckpointStore) -> Lossy:
    """One process takes every step of its checkpoints. `mortal.plan` says when it loses the connection."""
    mortal = MortalStore(store)
    world = Desk(store)
    world.reopen(mortal)
    world.ask("a")
    world.complete(1)
    world.ask("b")
    return world, mortal


def told_by_attempts(task: SnapshotTask) -> list[Acknowledgement]:
    return [Acknowledgement(key, by, Snapshot((), {"by": f"attempt {by}"})) for key, by in task.attempts.items()]


def take(world: Desk) -> None:
    """The snapshot of checkpoint 2."""
    world.coordinator.snapshot(2, CapturingRegion(told_by_attempts))


def finish(world: Desk, judge: Judge) -> str:
    """What the metadata of checkpoint 2 says."""
    world.coordinator.finalize_validated(world.coordinator.validate(2, judge))
    world.coordinator.notify(2)
    path = world.record(2).metadata_path
    assert path is not None
    return world.storage.read(path).decode()


def test_acknowledgements_that_were_lost_are_not_what_the_checkpoint_is_made_of(lossy: Lossy) -> None:
    world, mortal = lossy
    mortal.plan = 1, "connection lost before commit"
    with pytest.raises(UnknownOutcomeError):
        take(world)
    take(world)
    metadata = finish(world, Judge(True))
    assert "attempt 2" in metadata
    assert "attempt 1" not in metadata


class OtherJudge(Judge):
    """Its verdict is good too, but of other rows."""

    def validate(self, *what: Any) -> Sequence[Verdict]:
        return [replace(verdict, evaluated=77) for verdict in super().validate(*what)]


def test_verdicts_that_were_lost_are_not_written_down(lossy: Lossy) -> None:
    world, mortal = lossy
    take(world)
    mortal.plan = 0, "connection lost before commit"  # what is to be judged was handed on
    with pytest.raises(UnknownOutcomeError):
        world.coordinator.validate(2, OtherJudge(True))
    metadata = finish(world, Judge(True))
    assert world.store.verdicts("p", 2)[0].evaluated == 1
    assert '"evaluated": 1' in metadata
    assert '"evaluated": 77' not in metadata


@pytest.mark.parametrize("how", ["connection lost after commit", "connection lost before commit"])
def test_what_is_handed_on_is_asked_again_after_an_unknown_outcome(lossy: Lossy, how: str) -> None:
    world, mortal = lossy
    mortal.plan = 1, how
    with pytest.raises(UnknownOutcomeError):
        take(world)
    take(world)
    counts = {
        known.snapshot.position["by"] for known in world.store.subtasks("p", 2).values() if known.snapshot.position
    }
    metadata = finish(world, Judge(True))
    assert {by for by in ("attempt 1", "attempt 2") if by in metadata} == counts
