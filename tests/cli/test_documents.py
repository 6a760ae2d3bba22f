"""What `-o json` prints carries the names of Flink's REST API (protocol.md section 20),
but for those that the docs name."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from answers import details_of, no_checkpoints

from tidegate.cli.views import history_table
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
    SubtaskRecord,
)
from tidegate.reading.checkpoint_answers import Checkpoint
from tidegate.reading.checkpoint_rows import Figures, checkpoint_fields, checkpoint_of
from tidegate.reading.history_answers import CheckpointsOverview
from tidegate.reading.parts import task_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = CheckpointRecord(
    "orders", 7, "asked", False, Status.COMPLETED, Phase.VALIDATED, AT, AT + timedelta(minutes=10), 2, 2,
    (OperatorPlan("totals", 2, 128),),
    acknowledged_at=AT + timedelta(seconds=3), completed_at=AT + timedelta(seconds=4),
)  # fmt: skip
OLD = StateHandle("orders/chk-3/totals/0", HandleKind.RUN, 10, 100, "aa", 3)
NEW = StateHandle("orders/chk-7/totals/0", HandleKind.RUN, 2, 20, "bb", 7)
SUBTASKS = {
    SubtaskId("totals", 0): SubtaskRecord(
        SubtaskId("totals", 0), 1, AT + timedelta(seconds=2), Snapshot((OLD, NEW)),
        SubtaskMetrics(processed_bytes=5, persisted_bytes=3),
    ),
    SubtaskId("totals", 1): SubtaskRecord(SubtaskId("totals", 1), 1),
}  # fmt: skip

FIGURES = Figures(processed_data=5, persisted_data=3)
#: As the statement that adds subtasks up returns it.
ROW = {
    "operator_id": "totals", "positioned": False, "number": 2, "acknowledged": 1, "finished": 0, "attempt": 1,
    "latest": AT + timedelta(seconds=2), "checkpointed_size": 20, "state_size": 120, "files": 2, "processed_data": 5,
    "persisted_data": 3, "rows_in": 0, "rows_out": 0, "unaligned": True, "spreads": [1, 2, 3] * 11,
}  # fmt: skip
TASKS = [task_of(RECORD, ROW, 128, ())]

# Of the answer to GET …/checkpoints/details/:id, of each of its tasks, and of each subtask of …/subtasks/:vertexid.
DETAILS = """id status is_savepoint savepointFormat checkpoint_type trigger_timestamp latest_ack_timestamp state_size
    checkpointed_size end_to_end_duration processed_data persisted_data num_subtasks num_acknowledged_subtasks tasks
    external_path discarded failure_timestamp failure_message"""
TASK = """id status latest_ack_timestamp state_size checkpointed_size end_to_end_duration processed_data persisted_data
    num_subtasks num_acknowledged_subtasks"""
SUBTASK = """index status ack_timestamp end_to_end_duration checkpointed_size state_size checkpoint.sync
    checkpoint.async alignment.processed alignment.persisted alignment.duration start_delay unaligned_checkpoint
    aborted"""
OVERVIEW = "counts summary latest history"


def names(document):
    for name, value in document.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def documented_as_different():
    text = (Path(__file__).parents[2] / "docs/reference/json-output.md").read_text()
    rows = re.findall(r"^\| (.+?) \| `([\w.]+)` \|", text, re.MULTILINE)
    return {(where, name) for where, name in rows}


def test_the_fields_that_differ_from_flinks_are_those_that_the_docs_name():
    details = details_of(RECORD, TASKS, figures=FIGURES, subtasks=SUBTASKS).model_dump()
    task = details["tasks"]["totals"]
    overview = CheckpointsOverview(**dict(no_checkpoints()), history=(), next_before=None).model_dump()
    found = {
        "details": set(DETAILS.split()) - set(names(details)),
        "task": set(TASK.split()) - set(names(task)),
        "subtask": set(SUBTASK.split()) - set(names(task["subtasks"][0])),
        "history": set(DETAILS.split()) - set(names(checkpoint_of(RECORD).model_dump())),
        "overview": set(OVERVIEW.split()) - set(names(overview)),
    }
    missing = {(where, name) for where, absent in found.items() for name in absent}
    assert missing == documented_as_different()


@pytest.mark.parametrize(
    ("status", "subsumed", "discarded", "shown"),
    [
        (Status.COMPLETED, False, False, "COMPLETED"),
        (Status.SUBSUMED, True, False, "COMPLETED (subsumed)"),
        (Status.DISCARDED, True, True, "COMPLETED (discarded)"),
    ],
)
def test_a_status_is_one_of_flinks_three(status, subsumed, discarded, shown):
    found = checkpoint_of(replace(RECORD, status=status))
    assert (found.status, found.subsumed, found.discarded) == ("COMPLETED", subsumed, discarded)
    assert list(history_table([found]).columns[1].cells) == [shown]


@pytest.mark.parametrize("kind", CheckpointKind)
def test_a_savepoint_is_marked(kind):
    found = checkpoint_of(replace(RECORD, kind=kind))
    saved = kind is not CheckpointKind.CHECKPOINT
    assert (found.is_savepoint, found.savepoint_format) == (saved, "NATIVE" if saved else None)
    assert list(history_table([found]).columns[1].cells) == ["COMPLETED" + " [Savepoint]" * saved]


def test_a_checkpoint_with_data_in_flight_has_flinks_type():
    savepoint = replace(RECORD, kind=CheckpointKind.SAVEPOINT)
    for record, figures, shown in (
        (RECORD, FIGURES, "UNALIGNED_CHECKPOINT"),
        (RECORD, Figures(), "CHECKPOINT"),
        (savepoint, FIGURES, "SAVEPOINT"),
    ):
        assert Checkpoint(**checkpoint_fields(record, figures)).checkpoint_type == shown


def test_a_task_is_its_operator_and_has_its_subtasks():
    details = details_of(RECORD, TASKS, figures=FIGURES, subtasks=SUBTASKS)
    task = details.tasks["totals"]
    assert (details.processed_data, details.persisted_data, details.alignment_buffered) == (5, 3, 0)
    assert (task.id, task.status) == ("totals", "COMPLETED")
    assert (task.num_acknowledged_subtasks, task.num_subtasks, task.end_to_end_duration) == (1, 2, 2000)
    assert task.summary.checkpoint_duration.sync.model_dump() == {"min": 1, "avg": 2, "max": 3, "skew": 1.5}
    reported, silent = task.subtasks
    assert (reported.status, reported.checkpointed_size, reported.state_size) == ("completed", 20, 120)
    assert (reported.end_to_end_duration, reported.unaligned_checkpoint) == (2000, True)
    assert (silent.status, silent.end_to_end_duration, silent.unaligned_checkpoint) == ("pending_or_failed", -1, False)


def test_without_subtasks_a_task_has_none():
    assert "subtasks" not in details_of(RECORD, TASKS).model_dump()["tasks"]["totals"]
