"""How far behind its sources a pipeline is, on every store: what is recorded, by whom, and how often."""

from dataclasses import replace

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, completed
from worlds import CapturingRegion

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import RecordRefusedError
from tidegate.protocol.facts.records import Acknowledgement, Pending, Snapshot
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.steps.snapshot import SnapshotTask


def lag(pending: int, seconds: float, source: str = "src") -> SourceLag:
    return SourceLag(source, pending, "files", 10 * pending, at(seconds))


def recorded(store: CheckpointStore, pipeline_id: str = PIPELINE) -> list[SourceLag]:
    with store.transaction(pipeline_id) as tx:
        return tx.lag()


def test_what_is_recorded_replaces_what_was_and_wakes_nobody(store: CheckpointStore) -> None:
    completed(store)
    assert recorded(store) == []
    store.wait_for_change(PIPELINE, 0)
    with store.transaction(PIPELINE) as tx:
        tx.record_lag([lag(2, 1, "b"), lag(1, 1, "a")])
        assert tx.lag() == [lag(1, 1, "a"), lag(2, 1, "b")]
    assert not store.wait_for_change(PIPELINE, 0.1)
    with store.transaction(PIPELINE) as tx:
        tx.record_lag([replace(lag(3, 2, "b"), parts={"0": 1, "10": 0, "2": 2})])
    assert recorded(store) == [replace(lag(3, 2, "b"), parts={"0": 1, "2": 2, "10": 0})]
    with store.transaction(PIPELINE) as tx:
        tx.record_lag([lag(0, 2, "b")])
    assert recorded(store) == [lag(0, 2, "b")]
    assert list(store.figures(PIPELINE).lag) == [lag(0, 2, "b")]


def test_less_than_nothing_is_refused(store: CheckpointStore) -> None:
    with pytest.raises(RecordRefusedError), store.transaction(PIPELINE) as tx:
        tx.record_lag([lag(-1, 1)])
    assert recorded(store) == []


def test_a_scheduled_checkpoint_records_what_its_polls_left(store: CheckpointStore) -> None:
    desk = Desk(store)
    one = desk.ask("r1").checkpoint_id

    def report(task: SnapshotTask) -> None:
        left = Pending(3, "files", 30)
        acks = [
            Acknowledgement(key, attempt, Snapshot(), pending=left if key.operator_id == "src" else None)
            for key, attempt in task.attempts.items()
        ]
        desk.coordinator.record_acknowledgements(one, acks)
        stale = [Acknowledgement(ack.subtask, 99, Snapshot(), pending=Pending(8, "files")) for ack in acks]
        desk.coordinator.record_acknowledgements(one, stale)

    desk.coordinator.snapshot(one, CapturingRegion(report))
    splits = sum(1 for key in desk.coordinator.graph.subtasks if key.operator_id == "src")
    assert recorded(store, "p") == [SourceLag("src", 3 * splits, "files", 30 * splits, desk.clock.now())]


def test_a_region_records_it_at_its_looks_but_not_at_each(store: CheckpointStore) -> None:
    desk = Desk(store)
    attempt = desk.coordinator.start_region().attempt
    seen = []
    for tenth in range(0, 400, 5):
        desk.coordinator.poll_region(attempt, [lag(max(0, 30 - tenth), tenth / 10)])
        seen += [known.polled_at for known in recorded(store, "p")]
    writes = [(moment - at(0)).total_seconds() for moment in dict.fromkeys(seen)]
    assert writes == [0, 1, 2, 3, 33], "each second while it falls, then each half minute"
    desk.coordinator.poll_region(attempt)
    assert recorded(store, "p")[0].pending == 0
