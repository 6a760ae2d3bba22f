"""What a store says about all checkpoints of a pipeline together."""

from collections.abc import Callable
from dataclasses import replace

from desks import Desk
from made_gestures import resume
from store_steps import FIRST, PIPELINE, SECOND, SUBTASKS, acknowledgement, at, completed, triggered

from tidegate.ports import CheckpointStore
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import SubtaskMetrics
from tidegate.protocol.statistics import Measurement, Statistics


def test_a_pipeline_nobody_knows_has_no_figures(store: CheckpointStore) -> None:
    assert store.statistics("unknown") == Statistics({}, [], None, None)


def test_every_completed_checkpoint_is_measured_whatever_became_of_it(store: CheckpointStore) -> None:
    completed(store)
    completed(store, subsume=[1])
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(3, FailureReason.CHECKPOINT_EXPIRED, "late", at(50))
    triggered(store)
    found = store.statistics(PIPELINE)
    assert found.by_status == {Status.SUBSUMED: 1, Status.COMPLETED: 1, Status.FAILED: 1, Status.IN_PROGRESS: 1}
    assert [measured.checkpoint_id for measured in found.measurements] == [2, 1]
    assert found.measurements[0] == Measurement(2, 11_000, 1000, 4000, 0, 0)
    assert found.latest_completed == store.checkpoint(PIPELINE, 2)
    assert found.latest_failed == store.checkpoint(PIPELINE, 3)


def test_bytes_in_flight_are_summed_where_they_were_reported(store: CheckpointStore) -> None:
    id_ = triggered(store)
    processed = {FIRST: (100, 7), SECOND: (20, -1)}
    with store.transaction(PIPELINE) as transaction:
        reports = [
            replace(
                acknowledgement(subtask, 1),
                metrics=SubtaskMetrics(
                    processed_bytes=processed.get(subtask, (-1, -1))[0],
                    persisted_bytes=processed.get(subtask, (-1, -1))[1],
                ),
            )
            for subtask in SUBTASKS
        ]
        transaction.record_acknowledgements(id_, reports, at(10))
        transaction.advance(id_, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at(11))
    with store.transaction(PIPELINE) as transaction:
        transaction.advance(id_, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(20))
    with store.transaction(PIPELINE) as transaction:
        transaction.complete(id_, at(30), f"{PIPELINE}/chk-1/_metadata", 0, 0)
    assert store.statistics(PIPELINE).measurements == [Measurement(1, 11_000, 0, 0, 120, 7)]


def test_the_latest_savepoint_is_kept_apart(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1)
    for number, savepoint in enumerate([False, True, False], start=1):
        world.ask(f"r{number}", savepoint=savepoint)
        world.complete(number)
    world.stop("stop")
    world.complete(4)
    found = world.store.statistics("p")
    assert found.latest_savepoint == found.latest_completed == world.store.checkpoint("p", 4)
    resume(world.coordinator)
    world.ask("r5")
    world.complete(5)
    found = world.store.statistics("p")
    assert found.latest_completed == world.store.checkpoint("p", 5)
    assert found.latest_savepoint == world.store.checkpoint("p", 4)
