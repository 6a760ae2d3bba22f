"""When a fork is refused, what the new pipeline gets, and how its first checkpoint names the original."""

import re

import pytest
from cases import for_each
from records import completed

from tidegate.protocol.facts.errors import ForkRefusedError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Fork
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.recovery.fork import (
    ForkPlan,
    find_moved_sources,
    forked,
    require_another,
    require_fork_accepted,
    require_nothing_in_flight,
    require_own_tables,
    require_unknown,
)
from tidegate.protocol.recovery.identity import Endpoint, Moved, Role
from tidegate.protocol.recovery.restore_plan import Accepted

FORK = Fork("old", 7, "kept")


def sink(place, name="out", type_="ParquetSink"):
    return Endpoint(Role.SINK, name, type_, place)


def source(place, name="in"):
    return Endpoint(Role.SOURCE, name, "FileSource", place)


SAID = re.compile(r"Pipeline new was not forked from old(, savepoint kept)?: (.*)\. Nothing was changed\.")


def refusal(decide, *arguments):
    """Why, without what every refusal says; None if it is allowed."""
    try:
        decide(*arguments)
    except ForkRefusedError as error:
        said = SAID.fullmatch(str(error))
        return f"badly said: {error}" if said is None else said[2]
    return None


@for_each("name", [None, "kept", "a/b", "before: the change", "fork:x/1"])
def test_the_request_of_the_first_checkpoint_names_the_original(name):
    fork = Fork("old", 7, name)
    assert Fork.parse(str(fork)) == fork
    assert fork.describe() == ("old, checkpoint 7" if name is None else f"old, savepoint {name}")


@for_each("request_id", ["", "r1", "restore:3", "fork:", "fork:old", "fork:old/", "fork:old/x", "dag/fork:old/1"])
def test_other_requests_name_none(request_id):
    assert Fork.parse(request_id) is None


def test_a_pipeline_is_forked_to_another_one():
    assert refusal(require_another, "new", "old") is None
    with pytest.raises(ForkRefusedError, match="cannot be forked to itself"):
        require_another("old", "old")


@for_each(
    ("status", "newest", "why"),
    [
        (PipelineStatus.CREATED, None, None),
        (PipelineStatus.RUNNING, None, None),  # a region began, and took nothing yet
        (PipelineStatus.SUSPENDED, None, None),
        (PipelineStatus.CANCELLED, None, "it is CANCELLED"),
        (PipelineStatus.FINISHED, None, "it is FINISHED"),
        (PipelineStatus.FAILED, None, "it is FAILED"),
        (PipelineStatus.STOPPING, None, "it is STOPPING"),
        (PipelineStatus.RUNNING, completed(3), "this database knows checkpoints of it, up to 3"),
        (PipelineStatus.RUNNING, completed(3, status=Status.FAILED), "this database knows checkpoints of it, up to 3"),
        (PipelineStatus.RUNNING, completed(8, request_id=str(FORK)), "it was forked before, as its checkpoint 8"),
        (PipelineStatus.CANCELLED, completed(8, request_id=str(FORK)), "it was forked before, as its checkpoint 8"),
        (PipelineStatus.RUNNING, completed(8, request_id="fork:old/7/renamed"), "it was forked before, as its"),
        (PipelineStatus.RUNNING, completed(8, request_id="fork:old/6/kept"), "this database knows checkpoints of it"),
    ],
)  # fmt: skip
def test_only_a_pipeline_without_a_past_is_begun(status, newest, why):
    found = refusal(require_unknown, PipelineRecord("new", status), FORK, newest)
    assert found is None if why is None else found.startswith(why)


@for_each(
    ("theirs", "mine", "used", "why"),
    [
        ([sink("tables/a")], [sink("tables/b")], [], None),
        ([sink("tables/a")], [sink("tables/ab")], [], None),
        ([sink("tables/a")], [sink("tables/a")], [], "writes where sink 'out' of pipeline old does"),
        ([sink("tables/a")], [sink("tables/a", "other")], [], "its sink 'other'"),
        ([sink("tables/a")], [sink("tables/a/b")], [], "writes where"),
        ([sink("tables/a/b")], [sink("tables/a")], [], "writes where"),
        ([sink("tables/a")], [sink("tables/a", type_="DeltaSink")], [], "writes where"),
        ([sink("tables/then"), sink("tables/now")], [sink("tables/then")], [], "writes where"),
        ([sink("", type_="Topic")], [sink("", type_="Topic")], [], "writes where"),
        ([sink("", type_="Topic")], [sink("", type_="Table")], [], None),
        ([sink("", type_="Topic")], [sink("tables/a", type_="Topic")], [], None),
        ([source("landing"), sink("tables/a")], [source("landing"), sink("tables/b")], [], None),
        ([sink("tables/a")], [sink("tables/b")], ["out"], "the place of its sink out is not empty"),
    ],
)  # fmt: skip
def test_two_pipelines_do_not_write_to_one_table(theirs, mine, used, why):
    found = refusal(require_own_tables, "new", FORK, theirs, mine, used)
    assert found is None if why is None else why in found


def handle(path, kind=HandleKind.RUN, groups=None, **details):
    return StateHandle(path, kind, 3, 30, "0" * 64, 5, groups, details)


@for_each(
    ("snapshot", "allowed"),
    [
        (Snapshot((handle("a"),), {"read": 1}), True),
        (Snapshot((handle("a", HandleKind.EXCHANGE),)), True),
        (Snapshot((handle("a", HandleKind.CHANNEL),)), False),
        (Snapshot((), {"in_flight": [["rows/0", {}]]}), False),
        (Snapshot((), {"in_flight": []}), True),
    ],
)
def test_rows_in_flight_are_not_left_behind_unsaid(snapshot, allowed):
    why = refusal(require_nothing_in_flight, "new", FORK, [Snapshot(), snapshot])
    assert (why is None) == allowed
    assert why is None or "`tidegate savepoint old --name NAME`" in why


def test_it_gets_state_and_positions_in_files_of_its_own():
    shared = handle("old/shared/1/op/0-1-a.parquet", groups=KeyGroupRange(0, 3), written_as="was", layout="x")
    snapshots = {
        SubtaskId("op", 0): Snapshot((shared, handle("old/chk-5/op/0-1-a.parquet"), handle("x", HandleKind.EXCHANGE))),
        SubtaskId("op", 1): Snapshot((handle(shared.path, groups=KeyGroupRange(4, 7)),), finished=True),
        SubtaskId("src", 0): Snapshot((handle("old/chk-4/src/0-1-m", HandleKind.POSITION),), {"at": 3}),
        SubtaskId("out-sink", 0): Snapshot((handle("_staging/chk-5/0-1-x.parquet", HandleKind.STAGED),), finished=True),
        SubtaskId("gone", 0): Snapshot((handle("old/chk-5/gone/0-1-a"),), {"at": 1}, finished=True),
    }
    found = forked(snapshots, ["gone"], "new", 8)
    assert [(each.owner, each.handle.path, each.path) for each in found.copies] == [
        ("storage", "old/shared/1/op/0-1-a.parquet", "new/chk-8/op/0-1-0.parquet"),
        ("storage", "old/chk-5/op/0-1-a.parquet", "new/chk-8/op/0-1-1.parquet"),
        ("storage", "old/chk-4/src/0-1-m", "new/chk-8/src/0-1-2"),
    ]
    first, second = found.snapshots[SubtaskId("op", 0)], found.snapshots[SubtaskId("op", 1)]
    assert [each.path for each in first.handles] == ["new/chk-8/op/0-1-0.parquet", "new/chk-8/op/0-1-1.parquet"]
    assert (first.handles[0].created_by, first.handles[0].details) == (8, {"layout": "x"})
    assert [(each.path, each.key_groups) for each in second.handles] == [(first.handles[0].path, KeyGroupRange(4, 7))]
    assert second.finished
    assert found.snapshots[SubtaskId("src", 0)].position == {"at": 3}
    assert found.snapshots[SubtaskId("out-sink", 0)] == Snapshot()
    assert found.snapshots[SubtaskId("gone", 0)] == Snapshot(finished=True)


def test_sources_that_are_elsewhere_are_found_also_under_a_new_name():
    theirs = [source("landing"), source("other", "was"), sink("tables/a")]
    mine = [source("landing"), source("elsewhere", "now"), source("new", "more"), sink("tables/b")]
    assert [str(moved) for moved in find_moved_sources(theirs, mine, {"now": "was"})] == [
        "source 'now' is FileSource at other, and here it is FileSource at elsewhere"
    ]


@for_each("lost", [False, True])
@for_each("moved", [False, True])
@for_each("accepted", [Accepted(), Accepted(moved=True), Accepted(non_restored_state=True)])
def test_what_is_lost_or_elsewhere_must_be_accepted(lost, moved, accepted):
    places = (Moved(source("a"), source("b")),) if moved else ()
    plan = ForkPlan("new", FORK, completed(7), "memory://", (), (), (), (), places, ("gone",) if lost else ())
    why = refusal(require_fork_accepted, plan, accepted) or ""
    assert ("the state of gone;" in why) == (lost and not accepted.non_restored_state)
    assert ("--relocate" in why) == (moved and not accepted.moved)
