"""Files that a region shares between checkpoints: kept while it may use them, deleted once nobody can."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from desks import Desk
from worlds import Crash, Judge

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CompactedRun,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.testing.effects import Effects, Mortal, MortalTransactions

# -- the coordinator and the sweeper


class SharingRegion:
    """A region that writes one file between checkpoints, keeps the newest two,
    and carries them into each checkpoint."""

    def __init__(self, world: Desk, coordinator: CheckpointCoordinator | None = None, storage: object = None) -> None:
        self.world, self.coordinator = world, coordinator or world.coordinator
        self.storage = storage or world.storage
        start = self.coordinator.start_region()
        self.attempt = start.attempt
        restored = start.restored.get(SubtaskId("op", 0), Snapshot())
        self.files = {run.path: run.created_by for run in restored.handles}
        self._written = 0

    def write(self) -> str:
        self._written += 1
        path = f"p/shared/{self.attempt}/op/0-{self.attempt}-{self._written}.parquet"
        self.storage.write(path, b"rows")
        self.files = dict([*self.files.items(), (path, 0)][-2:])
        return path

    def acknowledge(self, checkpoint_id: int) -> Mapping[SubtaskId, AcknowledgeResult] | None:
        task = self.coordinator.begin_snapshot(self.attempt, checkpoint_id)
        return None if task is None else self.report(task)

    def report(self, task: SnapshotTask) -> Mapping[SubtaskId, AcknowledgeResult]:
        self.files = {path: creator or task.checkpoint_id for path, creator in self.files.items()}
        runs = tuple(StateHandle(path, HandleKind.RUN, 1, 4, "0" * 64, creator) for path, creator in self.files.items())
        acks = [
            Acknowledgement(key, attempt, Snapshot(runs if key == SubtaskId("op", 0) else ()))
            for key, attempt in task.attempts.items()
        ]
        return self.coordinator.record_acknowledgements(task.checkpoint_id, acks)

    def complete(self, checkpoint_id: int) -> None:
        self.acknowledge(checkpoint_id)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)


def shared_files(world: Desk) -> list[str]:
    return [path for path in world.storage.files if path.startswith("p/shared/")]


def abort(world: Desk, checkpoint_id: int) -> None:
    world.coordinator.abort(checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "declined")


def test_what_an_aborted_checkpoint_wrote_serves_the_next_one(desk: Callable[..., Desk]) -> None:
    world = desk()
    region = SharingRegion(world)
    first = region.write()
    world.ask("first")
    region.acknowledge(1)
    abort(world, 1)
    second = region.write()
    world.ask("second")
    region.complete(2)
    assert shared_files(world) == [first, second]
    third = region.write()  # and the first is merged away
    world.ask("third")
    region.complete(3)
    assert shared_files(world) == [second, third]


def test_a_report_that_came_too_late_takes_nothing_from_the_region(desk: Callable[..., Desk]) -> None:
    world = desk()
    region = SharingRegion(world)
    path = region.write()
    world.ask("first")
    task = world.coordinator.begin_snapshot(region.attempt, 1)
    assert task is not None
    abort(world, 1)
    assert set(region.report(task).values()) == {AcknowledgeResult.DISCARDED}
    world.coordinator.clean()
    assert shared_files(world) == [path]
    world.ask("second")
    region.complete(2)
    assert shared_files(world) == [path]


@pytest.mark.parametrize("how", ["end", "takeover", "scheduled"])
def test_what_a_region_leaves_behind_is_swept_and_its_late_files_too(desk: Callable[..., Desk], how: str) -> None:
    world = desk()
    region = SharingRegion(world)
    kept = region.write()
    world.ask("first")
    region.complete(1)
    region.write()
    if how == "end":
        world.coordinator.end_region(1)
    elif how == "takeover":
        successor = SharingRegion(world)
        mine = successor.write()
    else:
        world.clock.advance(61)
        world.ask("second")
        carry(world, 2)
    world.coordinator.clean()
    expected = [kept, mine] if how == "takeover" else [kept]
    assert shared_files(world) == expected
    late = region.write()  # a zombie
    world.coordinator.clean()
    assert late in shared_files(world), "it is not looked for at every step"
    world.clock.advance(301)
    world.coordinator.clean()
    assert shared_files(world) == expected
    region.write()
    world.clock.advance(3600)
    world.coordinator.clean()
    assert shared_files(world) == expected
    assert world.store.region("p").swept == 1
    assert world.storage.files.keys() > set(expected), "metadata is no shared file"


def carry(world: Desk, checkpoint_id: int) -> None:
    """A scheduled run that carries what it restored."""

    class Carrying:
        def snapshot(self, task: SnapshotTask, acknowledge: Callable[[Sequence[Acknowledgement]], object]) -> None:
            acknowledge(
                [
                    Acknowledgement(key, attempt, task.restored.get(key, Snapshot()))
                    for key, attempt in task.attempts.items()
                ]
            )

        def compact(self, checkpoint_id: int, snapshots: object) -> list[CompactedRun]:
            return []

    world.coordinator.snapshot(checkpoint_id, Carrying())
    world.coordinator.validate(checkpoint_id, Judge(True))
    world.coordinator.finalize(checkpoint_id)
    world.coordinator.notify(checkpoint_id)


def test_the_files_of_a_region_that_lives_are_never_swept(desk: Callable[..., Desk]) -> None:
    world = desk()
    region = SharingRegion(world)
    path = region.write()
    for hours in range(3):
        world.clock.advance(3600 * hours)
        world.coordinator.clean()
    assert shared_files(world) == [path]


def test_cancelling_leaves_nothing_of_a_region_that_died(desk: Callable[..., Desk]) -> None:
    world = desk()
    region = SharingRegion(world)
    region.write()
    world.ask("first")
    region.complete(1)
    region.write()
    world.coordinator.cancel()
    assert world.storage.files == {}


# -- crashes


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_crash_around_any_effect_of_a_region_costs_no_file_and_leaves_none(
    desk: Callable[..., Desk], before: bool
) -> None:
    """A region lives through a failed and a completed checkpoint and dies somewhere; the next one goes on."""
    world, effects = desk(retained=2), Effects()
    storage = Mortal(world.storage, effects, "write", "delete")
    mortal = CheckpointCoordinator(
        world.pipeline, MortalTransactions(world.store, effects), storage, world.clock
    )  # fmt: skip
    number, crashes = 0, 0
    while crashes == number:
        effects.die(number, before)
        try:
            a_life(world, mortal, storage, number)
        except Crash:
            crashes += 1
        effects.die(None)
        check_nothing_live_is_gone(world)
        number += 1
    assert crashes > 20, f"only {crashes} crash points were met: {effects.log}"
    world.coordinator.end_region(world.store.region("p").attempt)
    world.clock.advance(7200)
    world.coordinator.clean()
    assert set(world.storage.files) == live_files(world)


def a_life(world: Desk, coordinator: CheckpointCoordinator, storage: object, number: int) -> None:
    region = SharingRegion(world, coordinator, storage)
    region.write()
    first = coordinator.trigger(f"{number}-fails")
    region.acknowledge(first.checkpoint_id)
    coordinator.abort(first.checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "declined")
    check_usable(world, region)
    region.write()
    second = coordinator.trigger(f"{number}-completes")
    region.complete(second.checkpoint_id)
    check_usable(world, region)
    coordinator.end_region(region.attempt)


def check_usable(world: Desk, region: SharingRegion) -> None:
    assert region.files.keys() <= world.storage.files.keys(), "a file was deleted that the region still uses"


def live_files(world: Desk) -> set[str]:
    live: set[str] = set()
    for record in world.store.history("p", 1000):
        if record.status is Status.COMPLETED:
            assert record.metadata_path is not None
            live.add(record.metadata_path)
            if record.notified_at is not None:
                live.add(marker_path("p", record.checkpoint_id))
            known = world.store.subtasks("p", record.checkpoint_id).values()
            live |= {run.path for subtask in known for run in subtask.snapshot.handles}
    return live


def check_nothing_live_is_gone(world: Desk) -> None:
    assert live_files(world) <= set(world.storage.files)


def test_a_report_of_an_overtaken_region_gives_its_files_away_at_once(desk: Callable[..., Desk]) -> None:
    world = desk()
    region = SharingRegion(world)
    region.write()
    world.ask("first")
    task = world.coordinator.begin_snapshot(region.attempt, 1)
    assert task is not None
    SharingRegion(world)
    assert set(region.report(task).values()) == {AcknowledgeResult.DISCARDED}
    with world.store.transaction("p") as tx:
        assert [deletion.path for deletion in tx.pending_deletions(10)] == list(region.files)
