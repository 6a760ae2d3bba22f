"""Which checkpoints are kept, and whose files go: protocol.md section 9, row by row, on every store.

Two rows differ from Flink's on purpose (docs/decisions/008, protocol.md): a failed pipeline and one that has
finished keep their checkpoints whatever the policy, because a DAG run goes on from them and the state is the user's.
"""

from collections.abc import Callable

import pytest
from desks import Desk
from user_actions import resume, suspend
from worlds import CapturingRegion

from tidegate.pipeline.config import CheckpointRetention
from tidegate.protocol.facts.errors import PipelineFailedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle

NEVER = CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
ON_CANCELLATION = CheckpointRetention.RETAIN_ON_CANCELLATION

KEPT, GONE = True, False


def finish(world: Desk) -> None:
    world.ask("last")
    world.complete(2, "src op out-sink")


def fail(world: Desk) -> None:
    world.ask("fails")
    world.coordinator.abort(2, FailureReason.CHECKPOINT_DECLINED, "it declined")


ENDS: dict[PipelineStatus, Callable[[Desk], object]] = {
    PipelineStatus.FINISHED: finish,
    PipelineStatus.CANCELLED: lambda world: world.coordinator.cancel(),
    PipelineStatus.FAILED: fail,
    PipelineStatus.SUSPENDED: lambda world: suspend(world.coordinator),
}


@pytest.mark.parametrize(
    ("policy", "end", "kept"),
    [
        (NEVER, PipelineStatus.FINISHED, KEPT),  # Flink: deleted
        (NEVER, PipelineStatus.CANCELLED, GONE),
        (NEVER, PipelineStatus.FAILED, KEPT),  # Flink: deleted
        (NEVER, PipelineStatus.SUSPENDED, KEPT),  # not globally terminal: deletes nothing
        (ON_CANCELLATION, PipelineStatus.FINISHED, KEPT),  # Flink: deleted
        (ON_CANCELLATION, PipelineStatus.CANCELLED, KEPT),
        (ON_CANCELLATION, PipelineStatus.FAILED, KEPT),
        (ON_CANCELLATION, PipelineStatus.SUSPENDED, KEPT),
    ],
)
def test_what_becomes_of_the_latest_checkpoint_when_the_pipeline_ends(
    desk: Callable[..., Desk], policy: CheckpointRetention, end: PipelineStatus, kept: bool
) -> None:
    world = desk(retention=policy, tolerable_failed_checkpoints=0, retained=2)
    world.ask("first")
    world.complete(1)
    ENDS[end](world)
    pipeline = world.store.pipeline("p")
    assert pipeline is not None
    assert pipeline.status is end
    assert (world.store.checkpoint("p", 1).status is Status.COMPLETED) is kept
    assert ("p/chk-1/_metadata" in world.storage.files) is kept


@pytest.mark.parametrize("policy", CheckpointRetention)
def test_every_policy_deletes_what_newer_ones_push_out(desk: Callable[..., Desk], policy: CheckpointRetention) -> None:
    world = desk(retention=policy, retained=1)
    for number in (1, 2):
        world.ask(f"r{number}")
        world.complete(number)
    assert world.store.checkpoint("p", 1).status is Status.DISCARDED
    assert "p/chk-1/_metadata" not in world.storage.files


@pytest.mark.parametrize("policy", CheckpointRetention)
@pytest.mark.parametrize("end", [PipelineStatus.CANCELLED, PipelineStatus.SUSPENDED])
def test_a_savepoint_outlives_everything(
    desk: Callable[..., Desk], policy: CheckpointRetention, end: PipelineStatus
) -> None:
    world = desk(retention=policy, retained=1)
    world.ask("mine", savepoint=True)
    world.complete(1)
    for number in (2, 3):
        world.ask(f"r{number}")
        world.complete(number)
    ENDS[end](world)
    assert world.store.checkpoint("p", 1).status is Status.COMPLETED
    assert "p/chk-1/_metadata" in world.storage.files


@pytest.mark.parametrize(("retained", "left"), [(1, [4]), (2, [3, 4]), (3, [2, 3, 4]), (0, [4]), (-1, [4])])
def test_as_many_are_kept_as_configured_and_at_least_the_newest(
    desk: Callable[..., Desk], retained: int, left: list[int]
) -> None:
    world = desk(retained=retained)
    for number in (1, 2, 3, 4):
        world.ask(f"r{number}")
        world.complete(number)
    with world.store.transaction("p") as tx:
        assert [record.checkpoint_id for record in tx.retained()] == left


def test_savepoints_do_not_count_among_those_that_are_kept(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1)
    for number, savepoint in enumerate([False, True, False, False], start=1):
        world.ask(f"r{number}", savepoint=savepoint)
        world.complete(number)
    with world.store.transaction("p") as tx:
        assert [record.checkpoint_id for record in tx.retained()] == [2, 4]


def test_a_shared_file_lives_as_long_as_any_checkpoint_that_is_kept_refers_to_it(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1)
    for number, names in enumerate([("a", "b"), ("a", "c"), ("c",)], start=1):
        world.ask(f"r{number}")
        world.storage.write(f"p/chk-{number}/op/0-1-{names[-1]}", b"")
        if number == 1:
            world.storage.write("p/chk-1/op/0-1-a", b"")
        runs = tuple(_run(name, number) for name in names)
        _complete_with(world, number, runs)
        there = {path for path in world.storage.files if not path.endswith(("_metadata", "_committed"))}
        assert there == {run.path for run in runs}


def _run(name: str, number: int) -> StateHandle:
    created = {"a": 1, "b": 1, "c": 2}[name]
    return StateHandle(f"p/chk-{created}/op/0-1-{name}", HandleKind.RUN, 1, 1, "0" * 64, min(created, number))


def _complete_with(world: Desk, checkpoint_id: int, runs: tuple[StateHandle, ...]) -> None:
    def report(task) -> None:
        acks = [
            Acknowledgement(key, attempt, Snapshot(runs if str(key) == "op/0" else ()))
            for key, attempt in task.attempts.items()
        ]
        world.coordinator.record_acknowledgements(checkpoint_id, acks)

    world.coordinator.snapshot(checkpoint_id, CapturingRegion(report))
    world.complete(checkpoint_id)


def test_a_failed_pipeline_goes_on_from_what_it_kept(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0)
    world.ask("first")
    world.complete(1)
    fail(world)
    with pytest.raises(PipelineFailedError):
        world.ask("next")
    resume(world.coordinator)
    world.ask("again")
    world.complete(3)
    assert world.store.checkpoint("p", 3).status is Status.COMPLETED


def test_savepoints_in_between_push_no_checkpoint_out(desk: Callable[..., Desk]) -> None:
    world = desk(retained=3)
    for number, savepoint in enumerate([False, True, True, False, True, False], start=1):
        world.ask(f"r{number}", savepoint=savepoint)
        world.complete(number)
    with world.store.transaction("p") as tx:
        assert [record.checkpoint_id for record in tx.retained()] == [1, 2, 3, 4, 5, 6]
    world.ask("r7")
    world.complete(7)
    with world.store.transaction("p") as tx:
        assert [record.checkpoint_id for record in tx.retained()] == [2, 3, 4, 5, 6, 7]
