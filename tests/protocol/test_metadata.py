"""`_metadata` and the marker: what is written is read back, whole; what is not ours, damaged or newer is refused."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest
from cases import for_each
from records import at, completed, run_handle

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import MetadataError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import (
    CheckpointKind,
    Decision,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.recovery.marker import marker_document, marker_of, read_marker
from tidegate.protocol.recovery.metadata import Metadata, metadata_document, read_metadata

RUN = run_handle("p/chk-3/op/0-2-a", 3, key_groups=KeyGroupRange(0, 63), details={"level": 0})
STAGED = StateHandle("_staging/chk-4/0-1-a", HandleKind.STAGED, 1, 2, "ab", 4)
SUBTASKS = {
    SubtaskId("src", 0): SubtaskRecord(SubtaskId("src", 0), 0, at(1), Snapshot((), {"file": "a"}, True)),
    SubtaskId("op", 0): SubtaskRecord(SubtaskId("op", 0), 3, at(2), Snapshot((RUN,)), SubtaskMetrics(1, 2, 3, 4, 5)),
    SubtaskId("op", 1): SubtaskRecord(SubtaskId("op", 1), 2, at(2.5), Snapshot((), {})),
    SubtaskId("out-sink", 0): SubtaskRecord(SubtaskId("out-sink", 0), 2, at(3), Snapshot((STAGED,))),
}
PLAN = (OperatorPlan("src", 1, 128), OperatorPlan("op", 2, 128), OperatorPlan("out-sink", 1, 128))
RECORD = completed(
    4,
    request_id="dag/run",
    periodic=False,
    kind=CheckpointKind.SYNC_SAVEPOINT,
    drain=True,
    operators=PLAN,
    num_subtasks=4,
    num_acknowledged=4,
    num_finished=1,
)
PENDING = replace(RECORD, status=Status.IN_PROGRESS, completed_at=None, notified_at=None, metadata_path=None)
WHOLE = Metadata(
    PENDING,
    SUBTASKS,
    [
        Verdict(Target.parse("sink:out"), "s", True, 2, 0, ({"type": "t", "observed": 1.5},), None, "docs/1"),
        Verdict(Target.parse("state:op"), "s", True, 1, 0),
    ],
    [Endpoint(Role.SINK, "out", "ParquetSink", "tables"), Endpoint(Role.SOURCE, "src", "FileSource", "")],
    [Restore(1, 1, 2, None, at(5), None, at(6), True), Restore(2, 2, 3, 1, at(7), 1)],
    7,
)


def document(metadata=WHOLE):
    return metadata_document(metadata, {"op": {"type": "x"}}, {"mode": "EXACTLY_ONCE"})


def written(**changes):
    return json.dumps(document() | changes).encode()


def test_what_was_written_is_read_back_whole():
    assert read_metadata("p", 4, written()) == WHOLE
    assert (PENDING.phase, PENDING.acknowledged_at is None) == (Phase.VALIDATED, False)


def test_that_a_person_approved_it_is_read_back_too():
    decided = {"decision": Decision.APPROVED, "decided_at": at(8), "decided_by": "ada", "decision_comment": None}
    held = replace(PENDING, held_at=at(6), held_until=at(60), held_message="Too late.", **decided)
    whole = replace(WHOLE, record=held)
    assert read_metadata("p", 4, json.dumps(document(whole)).encode()) == whole
    assert "hold" not in document()


def test_it_is_plain_json_with_names_that_explain_themselves():
    shown = json.loads(written())
    assert (shown["format"], shown["version"]) == ("tidegate-checkpoint", 1)
    operator = shown["operators"][1]
    assert (operator["operator_id"], operator["parallelism"], operator["max_parallelism"]) == ("op", 2, 128)
    assert operator["definition"] == {"type": "x"}
    assert operator["subtasks"][0]["handles"][0]["key_groups"] == [0, 63]
    assert shown["options"] == {"mode": "EXACTLY_ONCE"}
    assert shown["verdicts"][0]["target"] == "sink:out"


def test_it_does_not_depend_on_the_order_in_which_endpoints_were_recorded():
    assert document() == document(replace(WHOLE, endpoints=WHOLE.endpoints[::-1]))


@for_each(
    ("content", "words"),
    [
        (written()[:-10], "p/chk-4/_metadata is not JSON, so it was cut off"),
        (b"", "is not JSON"),
        (b"[]", "is not of the format 'tidegate-checkpoint'"),
        (written(format="other"), "is not of the format"),
        (written(version=2), "has version 2 of its format, and this release reads versions up to 1"),
        (written(version="1"), "its version is '1'"),
        (written(pipeline="q"), "is of checkpoint 4 of pipeline q"),
        (written(checkpoint_id=5), "is of checkpoint 5 of pipeline p"),
        (written(triggered_at="today"), "is damaged: .*today"),
        (written(operators=[]), "subtasks differs from its parallelism"),
        (written(operators=[{}]), "is damaged: 'subtasks' is missing"),
        (written(kind="OTHER"), "is damaged: 'OTHER'"),
        (written(endpoints=[{"role": "SINK"}]), "is damaged"),
        (written(verdicts=None), "is damaged"),
    ],
)
def test_what_is_damaged_foreign_or_newer_is_refused_by_name(content, words):
    with pytest.raises(MetadataError, match=words):
        read_metadata("p", 4, content)


def test_a_marker_says_which_metadata_was_committed_and_when():
    content = written()
    marker = marker_of(RECORD, content, WHOLE.restores, 9)
    assert (marker.sha256, marker.completed_at) == (sha256(content).hexdigest(), at(3))
    shown = marker_document(marker)
    assert read_marker("p", 4, json.dumps(shown).encode()) == marker
    assert shown == {
        "format": "tidegate-committed",
        "version": 1,
        "pipeline": "p",
        "checkpoint_id": 4,
        "sha256": marker.sha256,
        "completed_at": at(3).isoformat(),
        "restores": document()["restores"],
        "commit_attempt": 9,
    }
    refused = ({"version": 2}, "newer release"), ({"pipeline": "q"}, "copied"), ({"completed_at": 1}, "damaged")
    for changes, words in refused:
        with pytest.raises(MetadataError, match=words):
            read_marker("p", 4, json.dumps(shown | changes).encode())
