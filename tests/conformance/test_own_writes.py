"""A transaction knows what it has written, whatever it had read before."""

from collections.abc import Callable
from typing import cast

import pytest
from desks import Desk
from own_writes import Compared, facts_of
from store_steps import FIRST, PIPELINE, SUBTASKS, acknowledgement, at, handle, metadata, record
from worlds import Judge

from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CompactedRun, Verdict


def test_in_the_steps_of_checkpoints(store: CheckpointStore) -> None:
    compared = Compared(store)
    desk = Desk(cast(CheckpointStore, compared))
    for number in range(1, 5):
        desk.ask(f"r{number}")
        if number == 3:
            desk.coordinator.abort(number, FailureReason.CHECKPOINT_DECLINED, "on purpose")
            continue
        desk.acknowledge(number)
        desk.coordinator.validate(number, Judge(True))
        desk.coordinator.finalize(number, notifies=True)
        desk.coordinator.notify(number)
        desk.clock.advance(1)
    desk.coordinator.clean()
    assert [record.status.value for record in compared.history("p", 4)] == [
        "COMPLETED",
        "FAILED",
        "DISCARDED",
        "DISCARDED",
    ]
    assert compared.compared > 20


GOOD = Verdict(Target.parse("sink:out"), "s", True, 1, 0)
REPORTS = [acknowledgement(subtask, 1, handle(f"{subtask}", 1)) for subtask in SUBTASKS]

#: One after the other, each in a transaction of its own that has read everything before.
WRITES: list[Callable[[StoreTransaction], object]] = [
    lambda tx: tx.add_pending(record(tx.next_checkpoint_id(), "r1"), SUBTASKS),
    lambda tx: tx.begin_attempt(1),
    lambda tx: tx.record_acknowledgements(1, REPORTS[:1], at(3)),
    lambda tx: [tx.begin_attempt(1), tx.record_acknowledgements(1, [acknowledgement(SUBTASKS[1], 2)], at(4))],
    lambda tx: tx.record_acknowledgements(1, [acknowledgement(s, 2) for s in SUBTASKS[2:]], at(5), moves=True),
    lambda tx: tx.record_verdicts(1, [GOOD]),
    lambda tx: tx.accept(1, [GOOD], at(6)),
    lambda tx: tx.complete(1, at(7), metadata(1), 4000, 1000),
    lambda tx: tx.add_compactions([CompactedRun(FIRST, handle("merged", 1), ("a", "b"))]),
    lambda tx: tx.mark_notified(1, tx.begin_commit(at(8)), at(8), ends=True),
    lambda tx: tx.remove_compactions(["merged"]),
    lambda tx: tx.add_pending(record(tx.next_checkpoint_id(), "r2"), SUBTASKS),
    lambda tx: [tx.begin_attempt(2), tx.record_acknowledgements(2, [acknowledgement(FIRST, 1)], at(8))],
    lambda tx: tx.fail(2, FailureReason.TASK_FAILURE, "gone", at(9)),
    lambda tx: [tx.add_pending(record(tx.next_checkpoint_id(), "r2"), SUBTASKS), tx.begin_attempt(3)],
    lambda tx: [
        tx.record_acknowledgements(3, REPORTS, at(10)),
        tx.advance(3, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at(10)),
        tx.accept(3, [], at(11)),
    ],
    lambda tx: [tx.complete(3, at(12), metadata(3), 4000, 1000), tx.subsume([1])],
    lambda tx: tx.mark_discarded(tx.pending_deletions(100)),
    lambda tx: tx.subsume([1, 3]),
    lambda tx: tx.mark_swept([1, 2]),
]


@pytest.mark.parametrize("prefetch", [None, Prefetch("r2", completed=True)])
def test_of_each_write(store: CheckpointStore, prefetch: Prefetch | None) -> None:
    for number, write in enumerate(WRITES):
        with store.transaction(PIPELINE, prefetch) as tx:
            before = facts_of(tx)
            write(tx)
            known = facts_of(tx)
        with store.transaction(PIPELINE) as tx:
            assert facts_of(tx) == known, f"after write {number}"
        assert known != before, f"write {number} changes nothing"
