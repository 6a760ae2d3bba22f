"""One checkpoint: phases, operators, subtasks, files, failure and relations."""

import json

import pytest
from store_steps import (
    FIRST,
    PIPELINE,
    SECOND,
    SINK,
    SOURCE,
    SUBTASKS,
    acknowledged,
    at,
    completed,
    fail_checkpoint,
    handle,
    triggered,
)
from worlds import Judge

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    IllegalRequestError,
    MetadataError,
    StateIntegrityError,
    ValidationFailedError,
)
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.observing.lag import SourceLag
from tidegate.reading.advice import ADVICE
from tidegate.reading.answer import handles_of
from tidegate.reading.lag_answers import LagOfSource


def test_every_reason_says_what_to_do():
    assert ADVICE.keys() == set(FailureReason)
    for reason, advice in ADVICE.items():
        assert advice.endswith("."), reason
        assert advice != reason.sentence


def test_phases_follow_each_other(pages, store):
    readings = pages().readings
    completed(store)
    phases = readings.checkpoint(PIPELINE, 1).phases
    assert [(span.phase, span.began_at, span.ended_at) for span in phases] == [
        ("TRIGGERED", at(0), at(11)),
        ("ACKNOWLEDGED", at(11), at(20)),
        ("VALIDATED", at(20), at(30)),
        ("COMPLETED", at(30), at(40)),
        ("NOTIFIED", at(40), at(40)),
    ]
    acknowledged(store)
    assert [(span.phase, span.ended_at) for span in readings.checkpoint(PIPELINE, 2).phases] == [
        ("TRIGGERED", at(11)),
        ("ACKNOWLEDGED", None),
    ]
    fail_checkpoint(store, 2)
    assert [(span.phase, span.ended_at) for span in readings.checkpoint(PIPELINE, 2).phases][-1] == ("FAILED", at(50))


def test_operators_add_up_and_skew_shows(pages, store):
    readings = pages().readings
    old, new = handle("flights/chk-1/a", 1), handle("flights/chk-2/b", 2)
    completed(store, {FIRST: [old]})
    completed(store, {FIRST: [old, new], SINK: [handle("chk-2/s", 2, HandleKind.STAGED)]})
    source, carriers = readings.checkpoint(PIPELINE, 2).tasks.values()
    assert (source.id, source.role, carriers.role) == ("source", "source", "operator")
    assert (carriers.parallelism, carriers.num_acknowledged_subtasks, carriers.attempt) == (2, 2, 1)
    assert (carriers.state_size, carriers.checkpointed_size, carriers.files) == (2000, 1000, 2)
    sizes = carriers.summary.state_size
    assert (sizes.min, sizes.avg, sizes.max, sizes.skew) == (0, 1000, 2000, 2)
    assert carriers.summary.end_to_end_duration.max == 10_000
    assert carriers.summary.checkpoint_duration.sync.max == -1  # nobody reported it
    assert (carriers.rows_in, carriers.summary.start_delay.max) == (200, 5)


def test_nothing_is_known_of_who_has_not_acknowledged(pages, store):
    readings = pages().readings
    triggered(store)
    for task in readings.checkpoint(PIPELINE, 1).tasks.values():
        assert task.num_acknowledged_subtasks == 0
        of = task.summary
        assert {spread.max for spread in (of.rows_in, of.state_size, of.start_delay, of.alignment.duration)} == {-1}


def test_subtasks_and_files_come_in_pages(pages, store):
    readings = pages().readings
    files = {key: [handle(f"flights/chk-1/{key}-{n}", 1) for n in range(3)] for key in SUBTASKS}
    completed(store, files)
    first = readings.subtasks(PIPELINE, 1, "carriers", limit=1)
    assert ([each.index for each in first.subtasks], first.next_index) == ([FIRST.subtask_index], 0)
    second = readings.subtasks(PIPELINE, 1, "carriers", after=0, limit=1)
    assert ([each.index for each in second.subtasks], second.next_index) == ([SECOND.subtask_index], None)
    assert [each.path for each in second.subtasks[0].handles] == [each.path for each in files[SECOND]]
    key, found = None, []
    while True:
        page = readings.files(PIPELINE, 1, key, limit=5)
        found += [line.handle for line in page.files]
        if (key := page.next_key) is None:
            break
    assert tuple(found) == handles_of(each for subtask in sorted(SUBTASKS) for each in files[subtask])
    for wrong in ("x", "1/x", "1", "-1/2/x", "1/2/a\0"):
        with pytest.raises(IllegalRequestError, match="not a position in the list of files"):
            readings.files(PIPELINE, 1, wrong)


def test_a_failure_is_explained(pages):
    world = pages()
    world.ask("r1")
    world.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        world.coordinator.validate(1, Judge(False))
    page = world.readings.checkpoint("p", 1)
    assert page.failure is not None
    assert page.failure.reason == "VALIDATION_FAILED"
    assert page.failure.sentence.startswith(FailureReason.VALIDATION_FAILED.sentence)
    assert page.failure.advice == ADVICE[FailureReason.VALIDATION_FAILED]
    assert [verdict.success for verdict in page.verdicts] == [False] * len(page.verdicts)


def test_relations_to_restores(pages):
    world = pages(retained=9)
    for number in range(3):
        world.take(f"r{number}")
    world.coordinator.restore(ToCheckpoint(1))
    world.take("r9")
    left = world.readings.checkpoint("p", 3).relations
    assert (left.abandoned_by and left.abandoned_by.number, left.previous, left.next) == (1, 2, 4)
    assert [each.number for each in world.readings.checkpoint("p", 1).relations.restored_by] == [1]
    after = world.readings.checkpoint("p", 4).relations
    assert after.follows_restore is not None
    assert after.follows_restore.checkpoint_id == 1


def test_metadata_is_what_was_written_and_nothing_else(pages):
    world = pages()
    world.take("r1")
    world.ask("r2")
    with pytest.raises(CheckpointNotFoundError, match="has not completed"):
        world.readings.metadata("p", 2)
    content = world.readings.metadata("p", 1)
    assert json.loads(content)["checkpoint_id"] == 1
    world.storage.files["p/chk-1/_metadata"] = b"root:x:0:0"
    with pytest.raises(MetadataError, match="not JSON"):
        world.readings.metadata("p", 1)
    world.storage.files["p/chk-1/_metadata"] = content.replace(b'"checkpoint_id": 1', b'"checkpoint_id": 2', 1)
    with pytest.raises(MetadataError, match="another checkpoint"):
        world.readings.metadata("p", 1)
    del world.storage.files["p/chk-1/_metadata"]
    with pytest.raises(StateIntegrityError):
        world.readings.metadata("p", 1)


def test_a_checkpoint_that_there_is_not(pages):
    world = pages()
    world.take("r1")
    for question in (world.readings.checkpoint, world.readings.files, world.readings.verdicts, world.readings.state):
        with pytest.raises(CheckpointNotFoundError, match="has no checkpoint 7"):
            question("p", 7)


def test_a_source_is_where_its_splits_are(pages, store):
    readings = pages().readings
    completed(store, {SOURCE: [handle("flights/chk-1/m", 1, HandleKind.POSITION)]})
    (source,) = readings.sources(PIPELINE)
    assert (source.name, source.lag) == ("source", None)
    assert [split.position for split in source.splits] == [{"files": ["a.csv"]}]
    assert [each.path for each in source.splits[0].files] == ["flights/chk-1/m"]
    with store.transaction(PIPELINE) as tx:
        tx.record_lag([SourceLag("source", 3, "rows", 30, at(5), {"0": 1, "10": 0, "2": 2})])
    (source,) = readings.sources(PIPELINE)
    parts = {"0": 1, "2": 2, "10": 0}
    assert source.lag == LagOfSource(pending=3, unit="rows", bytes=30, polled_at=at(5), parts=parts)
    assert list(source.lag.parts) == ["0", "2", "10"]
    behind = readings.parts_behind(PIPELINE)
    assert [(part.source, part.part, part.pending, part.unit) for part in behind] == [
        ("source", part, pending, "rows") for part, pending in parts.items()
    ]
