"""protocol.md section 5.1: the four answers, in their order of checks, and whose files become garbage."""

from cases import for_each
from records import acknowledgement, record, run_handle, subtask

from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import AcknowledgeResult, Deletion, HandleKind, SubtaskId
from tidegate.protocol.steps.acknowledge import decide_acknowledgements, garbage_of, owner_of

OP0 = SubtaskId("op", 0)
FAILED = {"status": Status.FAILED, "failure_reason": FailureReason.CHECKPOINT_EXPIRED}
COMPLETED = {"status": Status.COMPLETED, "phase": Phase.VALIDATED}


@for_each(
    ("changes", "known", "attempt", "expected"),
    [
        ({}, subtask(attempt=1), 1, AcknowledgeResult.SUCCESS),
        ({}, subtask(attempt=1, acknowledged=True), 1, AcknowledgeResult.DUPLICATE),
        ({}, subtask(attempt=2), 1, AcknowledgeResult.UNKNOWN),
        ({}, subtask(attempt=2, acknowledged=True), 1, AcknowledgeResult.UNKNOWN),
        ({}, subtask(attempt=1), 2, AcknowledgeResult.UNKNOWN),
        ({}, None, 1, AcknowledgeResult.UNKNOWN),
        (FAILED, subtask(attempt=1), 1, AcknowledgeResult.DISCARDED),
        (FAILED, subtask(attempt=2), 1, AcknowledgeResult.DISCARDED),
        (COMPLETED, subtask(attempt=1, acknowledged=True), 1, AcknowledgeResult.DISCARDED),
    ],
    ids=["first", "again", "zombie", "zombie of an acknowledged one", "from the future", "not expected",
         "aborted", "aborted and old", "completed"],
)  # fmt: skip
def test_the_four_answers(changes, known, attempt, expected):
    subtasks = {} if known is None else {OP0: known}
    assert decide_acknowledgements(record(**changes), subtasks, [acknowledgement(0, attempt)]) == [expected]


def test_an_acknowledgement_of_a_checkpoint_nobody_knows_is_unknown():
    assert decide_acknowledgements(None, {}, [acknowledgement()]) == [AcknowledgeResult.UNKNOWN]


def test_the_same_subtask_twice_in_one_batch_counts_once():
    results = decide_acknowledgements(record(), {OP0: subtask()}, [acknowledgement(), acknowledgement()])
    assert results == [AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE]


@for_each("result", list(AcknowledgeResult))
def test_new_files_of_reports_that_do_not_count_are_garbage_and_carried_ones_never_are(result):
    old, new = run_handle("p/chk-1/a", 1), run_handle("p/chk-2/b", 2)
    garbage = garbage_of(2, [acknowledgement(0, 1, old, new)], [result])
    discarded = result in {AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED}
    assert garbage == ([Deletion("storage", "p/chk-2/b")] if discarded else [])


def test_staged_files_belong_to_their_sink():
    assert owner_of("delays-sink", HandleKind.STAGED) == "sink:delays-sink"
    assert owner_of("delays", HandleKind.RUN) == "storage"
