"""What a store says about all checkpoints of a pipeline together."""

from dataclasses import replace

from store_steps import FIRST, PIPELINE, SECOND, SUBTASKS, acknowledgement, at, completed, handle, triggered

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import SubtaskMetrics
from tidegate.protocol.observing.statistics import LatestFigures, Measurement
from tidegate.protocol.schema.expiry import TTL, RecordedTtl


def test_a_pipeline_nobody_knows_has_no_figures(store: CheckpointStore) -> None:
    assert store.figures("unknown") == LatestFigures({}, 0, None, None, None)


def test_all_are_counted_and_the_latest_completed_one_is_measured(store: CheckpointStore) -> None:
    completed(store)
    completed(store, subsume=[1])
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(3, FailureReason.CHECKPOINT_EXPIRED, "late", at(50))
    triggered(store)
    found = store.figures(PIPELINE)
    assert found.by_status == {Status.SUBSUMED: 1, Status.COMPLETED: 1, Status.FAILED: 1, Status.IN_PROGRESS: 1}
    assert found.latest == Measurement(2, 11_000, 1000, 4000, 0, 0)
    assert found.latest_completed == store.checkpoint(PIPELINE, 2)


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
    assert store.figures(PIPELINE).latest == Measurement(1, 11_000, 0, 0, 120, 7)


def test_rows_that_had_expired_and_were_removed_are_counted_once(store: CheckpointStore) -> None:
    """A run that two subtasks share counts where its smallest hash is."""
    details = {"min_hash": "c000000000000000", "max_parallelism": 4}
    ttl = RecordedTtl("_updated", 1, True, removed=7)
    shared = replace(handle("shared", 1), details=details | {TTL: ttl.to_json()})
    of = [replace(shared, key_groups=groups) for groups in (KeyGroupRange(0, 1), KeyGroupRange(2, 3))]
    own = replace(shared, path="own", details=details | {TTL: replace(ttl, removed=3).to_json()})
    completed(store, {FIRST: [of[0], own], SECOND: [of[1], handle("none", 1)]})
    assert store.figures(PIPELINE).expired_rows == 10
