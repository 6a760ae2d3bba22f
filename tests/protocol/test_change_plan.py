"""What a definition does with what a checkpoint recorded, vertex by vertex. Changes of columns have a table of their
own, which also reads the rows: `tests/state/test_changed_layouts.py`."""

from dataclasses import replace

import pytest
from cases import for_each
from records import completed, run_handle

from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import HandleKind, OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.recovery.change_plan import find_refusals, plan_changes
from tidegate.protocol.recovery.changes import (
    ChangePlan,
    ChangeVerdict,
    DefinedVertex,
    Definition,
    Recorded,
    VertexKind,
)
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.schema.state_schema import StateColumn, StateSchema
from tidegate.protocol.steps.refusal import require_none
from tidegate.protocol.steps.restored_snapshots import restore_snapshots
from tidegate.protocol.steps.sink_marks import SinkMark

RUN = run_handle("p/chk-1/sums/0-1-a.parquet", 1, key_groups=KeyGroupRange(0, 127))
READ = run_handle("p/chk-1/orders/0-1-a", 1, kind=HandleKind.POSITION)


def schema(**columns):
    def column(name, type_):
        return StateColumn(name, type_, name)

    return StateSchema((column("k", columns.pop("k", "bigint")),), tuple(column(n, t) for n, t in columns.items()))


def windowed(*keys):
    return StateSchema(tuple(StateColumn(name, None, name) for name in (*keys, "window_start", "window_end")), None)


def plan(name, parallelism=1, max_parallelism=128):
    return OperatorPlan(name, parallelism, max_parallelism)


SOURCE = DefinedVertex(VertexKind.SOURCE, "orders", plan("orders"), options={"format": "csv"})
SUMS = DefinedVertex(VertexKind.OPERATOR, "sums", plan("sums"), schema(n="int"))
SINK = DefinedVertex(VertexKind.SINK, "table", plan("table-sink"))
UPSERTED = replace(SINK, upserts=True)
GIVEN_ALL = "is given all rows of the state once, with the next checkpoint"
STEP = DefinedVertex(VertexKind.STEP, "drawn", plan("drawn"))
ENDPOINTS = (Endpoint(Role.SOURCE, "orders", "Files", "in"), Endpoint(Role.SINK, "table", "Parquet", "out"))
RECORDED = Recorded(
    completed(operators=(plan("orders"), plan("sums"), plan("table-sink"), plan("drawn"))),
    {SubtaskId("orders", 0): Snapshot((READ,)), SubtaskId("sums", 0): Snapshot((RUN,)),
     SubtaskId("table-sink", 0): Snapshot(), SubtaskId("drawn", 0): Snapshot()},
    {"sums": schema(n="int")},
    ENDPOINTS,
    (Target.parse("sink:table"), Target.parse("check:balanced")),
    {"orders": {"format": "csv"}, "sums": {"inputs": ["orders"], "window": "1 h of 'at'"}},
)  # fmt: skip
UPSTREAMS = {"sums": ("orders",), "drawn": ("orders",), "table-sink": ("sums",)}


def defined(*vertices, **changes):
    fields = {
        "upstreams": UPSTREAMS,
        "renamed": {},
        "endpoints": ENDPOINTS,
        "targets": RECORDED.targets,
        "allow_non_restored_state": False,
    }
    return Definition("p", vertices or (SOURCE, SUMS, SINK, STEP), **(fields | changes))


def with_(vertex, **changes):
    return replace(vertex, **changes)


SAME, NEW, DROPPED, MIGRATES, REFUSES = ChangeVerdict
CASES = {
    "nothing": (defined(), "sums", SAME, ()),
    "more subtasks": (
        defined(SOURCE, with_(SUMS, plan=plan("sums", 4)), SINK, STEP), "sums", SAME, ("parallelism: 1, now 4",)
    ),
    "more splits": (
        defined(with_(SOURCE, plan=plan("orders", 3)), SUMS, SINK, STEP), "orders", SAME, ("splits: 1, now 3",)
    ),
    "another max_parallelism": (
        defined(SOURCE, with_(SUMS, plan=plan("sums", 1, 256)), SINK, STEP), "sums", REFUSES,
        ("was checkpointed with max_parallelism 128 and is now defined with 256", "set max_parallelism=128"),
    ),
    "another option of a source": (
        defined(with_(SOURCE, options={"format": "json"}), SUMS, SINK, STEP), "orders", SAME,
        ("format: 'csv', now 'json'",),
    ),
    "a source elsewhere": (
        defined(endpoints=(replace(ENDPOINTS[0], place="other"), ENDPOINTS[1])), "orders", REFUSES,
        ("Source 'orders' is Files at in, and here it is Files at other.", "tidegate relocate p"),
    ),
    "a sink of another type": (
        defined(endpoints=(ENDPOINTS[0], replace(ENDPOINTS[1], type="Iceberg"))), "table", REFUSES,
        ("here it is Iceberg at out", "tidegate relocate p"),
    ),
    "a new operator": (
        defined(SOURCE, SUMS, SINK, STEP, with_(SUMS, name="more", plan=plan("more"))), "more", NEW, ("starts empty",)
    ),
    "a new source": (
        defined(SOURCE, SUMS, SINK, STEP, with_(SOURCE, name="more", plan=plan("more"))), "more", NEW,
        ("reads everything from the beginning",),
    ),
    "a new sink": (
        defined(SOURCE, SUMS, SINK, STEP, with_(SINK, name="more", plan=plan("more-sink"))), "more", NEW, ("begins",)
    ),
    "an operator less": (
        defined(SOURCE, SINK, STEP), "sums", REFUSES, ("holds state or positions of sums", "previous=…")
    ),
    "an operator less, on purpose": (
        defined(SOURCE, SINK, STEP, allow_non_restored_state=True), "sums", DROPPED, ("its state is dropped",)
    ),
    "a source less": (defined(SUMS, SINK, STEP), "orders", REFUSES, ("would read everything again",)),
    "a sink less": (defined(SOURCE, SUMS, STEP), "table", DROPPED, ("its written rows stay",)),
    "a step less": (defined(SOURCE, SUMS, SINK), "drawn", DROPPED, ("had no state",)),
    "a column more": (
        defined(SOURCE, with_(SUMS, schema=schema(n="int", m="string")), SINK, STEP), "sums", MIGRATES,
        ("column 'm' is new",),
    ),
    "a column that does not fit": (
        defined(SOURCE, with_(SUMS, schema=schema(n="string")), SINK, STEP), "sums", REFUSES,
        ("'n' is stored as int, now string", "Put the definition back"),
    ),
    "types that only Spark knows": (
        defined(SOURCE, with_(SUMS, schema=StateSchema((StateColumn("k", None, "k"),), None)), SINK, STEP), "sums",
        SAME, (),
    ),
    "another key, whatever its type": (
        defined(SOURCE, with_(SUMS, schema=StateSchema((StateColumn("id", None, "id"),), None)), SINK, STEP), "sums",
        REFUSES, (r"the key is stored as (k bigint) and now defined as (id)",),
    ),
    "an operator renamed": (
        defined(SOURCE, with_(SUMS, name="totals", plan=plan("totals")), SINK, STEP, renamed={"totals": "sums"}),
        "totals", MIGRATES, ("was called 'sums'",),
    ),
    "an operator renamed with its columns": (
        defined(SOURCE, with_(SUMS, name="totals", plan=plan("totals", 2), schema=schema(m="bigint"),
                              former={"m": "n"}), SINK, STEP, renamed={"totals": "sums"}),
        "totals", MIGRATES,
        ("was called 'sums'", "column 'm' was called 'n'", "widened from int to bigint", "parallelism: 1, now 2"),
    ),
    "a rename that is long done": (defined(renamed={"sums": "before"}), "sums", SAME, ()),
    "expectations more": (
        defined(targets=(*RECORDED.targets, Target.parse("state:sums"))), "sums", SAME, ("expectations that are new",)
    ),
    "expectations less": (defined(targets=RECORDED.targets[1:]), "table", SAME, ("no expectations any more",)),
    "a check less": (defined(targets=RECORDED.targets[:1]), "balanced", DROPPED, ()),
    "other windows": (
        defined(SOURCE, with_(SUMS, options={"window": "2 h of 'at'"}), SINK, STEP), "sums", SAME,
        ("its windows were 1 h of 'at', and are 2 h of 'at': those that are open keep their bounds",),
    ),
    "windows where there were none": (
        defined(SOURCE, with_(SUMS, schema=windowed("k"), options={"window": "1 h of 'at'"}), SINK, STEP), "sums",
        REFUSES, ("its rows are kept by key alone, and it now has windows", "Put the definition back"),
    ),
    "a check more": (defined(targets=(*RECORDED.targets, Target.parse("check:even"))), "even", NEW, ()),
}  # fmt: skip


MARK = SinkMark("sink", "sums", 1)
WITH_OPTION = replace(UPSERTED, options={"key": ["k"]})
SINKS_OF_UPSERTS = {
    "as before": (MARK, defined(SOURCE, SUMS, UPSERTED, STEP), False),
    "it may lack rows": (None, defined(SOURCE, SUMS, UPSERTED, STEP), True),
    "behind another operator": (replace(MARK, operator_id="other"), defined(SOURCE, SUMS, UPSERTED, STEP), True),
    "more subtasks": (MARK, defined(SOURCE, SUMS, with_(UPSERTED, plan=plan("table-sink", 4)), STEP), True),
    "another option": (MARK, defined(SOURCE, SUMS, WITH_OPTION, STEP), True),
    "other columns": (MARK, defined(SOURCE, with_(SUMS, schema=schema(n="bigint")), UPSERTED, STEP), True),
    "another kind of sink": (MARK, defined(SOURCE, SUMS, SINK, STEP), False),
}


@for_each(("mark", "definition", "is_given_all"), SINKS_OF_UPSERTS.values(), ids=SINKS_OF_UPSERTS)
def test_a_sink_of_upserts_that_may_lack_rows_is_given_all(mark, definition, is_given_all):
    known = Snapshot() if mark is None else Snapshot((), mark.position())
    options = {**RECORDED.options, "table-sink": {"key": ["id"]}} if definition.vertices[2] is WITH_OPTION else {}
    snapshots = {**RECORDED.snapshots, SubtaskId("table-sink", 0): known}
    found = plan_changes(replace(RECORDED, snapshots=snapshots, options=options), definition)
    (change,) = (each for each in found if each.name == "table")
    assert change.verdict is SAME
    assert (GIVEN_ALL in change.changes) is is_given_all


def test_windows_that_are_gone_are_refused_and_those_of_an_older_release_are_not_known():
    without = with_(SUMS, schema=StateSchema((StateColumn("k", None, "k"),), None))
    recorded = replace(RECORDED, schemas={"sums": windowed("k")}, options={"sums": {"inputs": ["orders"]}})
    (change,) = (each for each in plan_changes(recorded, defined(SOURCE, without, SINK, STEP)) if each.name == "sums")
    assert "its rows are kept by key and window, and it has no more windows" in change.changes[0]
    sessions = with_(SUMS, schema=replace(windowed("k"), sessions=True))

    (change,) = (each for each in plan_changes(recorded, defined(SOURCE, sessions, SINK, STEP)) if each.name == "sums")
    assert "its rows are those of windows, and it now has sessions" in change.changes[0]
    now = with_(SUMS, schema=windowed("k"), options={"window": "1 h of 'at'"})
    (change,) = (each for each in plan_changes(recorded, defined(SOURCE, now, SINK, STEP)) if each.name == "sums")
    assert (change.verdict, change.changes) == (SAME, ())


@pytest.mark.parametrize("upserts", [False, True])
@pytest.mark.parametrize("now", [{"transforms": "b"}, {}])
def test_a_table_of_current_rows_behind_other_transforms_is_given_all_rows(upserts, now):
    sink = replace(SINK, upserts=upserts, appends=False, options=now)
    recorded = replace(RECORDED, options={**RECORDED.options, "table-sink": {"transforms": "a"}})
    found = {each.name: each for each in plan_changes(recorded, defined(SOURCE, SUMS, sink, STEP))}["table"]
    said = ("its transforms have changed", "is given all rows of the state once, with the next checkpoint")
    assert (found.verdict, found.changes[:2]) == (SAME, said)


def test_a_new_sink_of_upserts_is_given_all_rows():
    more = with_(UPSERTED, name="more", plan=plan("more-sink"))
    found = plan_changes(RECORDED, defined(SOURCE, SUMS, SINK, STEP, more))
    (change,) = (each for each in found if each.name == "more")
    assert (change.verdict, change.changes) == (NEW, (GIVEN_ALL,))


@for_each(("definition", "name", "verdict", "words"), CASES.values(), ids=CASES)
def test_a_change_and_its_verdict(definition, name, verdict, words):
    found = plan_changes(RECORDED, definition)
    (change,) = (each for each in found if each.name == name)
    assert change.verdict is verdict
    said = "\n".join((*change.changes, change.way_out))
    for each in words:
        assert each in said
    assert bool(change.way_out) == (verdict is REFUSES)
    others = {each.verdict for each in found if each.name != name}
    assert others <= {SAME}


@for_each(("definition", "name", "verdict", "words"), CASES.values(), ids=CASES)
def test_a_run_is_refused_exactly_where_the_plan_refuses_and_in_its_words(definition, name, verdict, words):
    refusals = find_refusals(RECORDED, definition)
    assert bool(refusals) == (verdict is REFUSES)
    if verdict is not REFUSES:
        require_none(refusals)
        restored = restore_snapshots(
            RECORDED.record, RECORDED.snapshots, definition.operators, (),
            definition.allow_non_restored_state, definition.renamed,
        )  # fmt: skip
        assert set(restored) <= {
            SubtaskId(each.operator_id, index) for each in definition.operators for index in range(each.parallelism)
        }
        return
    (change,) = (each for each in plan_changes(RECORDED, definition) if each.name == name)
    with pytest.raises(StateSchemaError) as raised:
        require_none(refusals)
    assert "".join(change.changes) in str(raised.value)
    assert change.way_out in str(raised.value)


def test_a_renamed_operator_starts_from_what_it_had_and_its_files_say_who_wrote_them():
    renamed = {"totals": "sums"}
    operators = (plan("orders"), plan("totals", 2))
    restored = restore_snapshots(RECORDED.record, RECORDED.snapshots, operators, (), True, renamed)
    runs = [handle for index in (0, 1) for handle in restored[SubtaskId("totals", index)].handles]
    assert {(run.path, run.details["written_as"]) for run in runs} == {(RUN.path, "sums")}
    later = replace(RECORDED.record, operators=operators)
    again = restore_snapshots(later, restored, (plan("orders"), plan("final", 2)), (), True, {"final": "totals"})
    assert {run.details["written_as"] for run in again[SubtaskId("final", 0)].handles} == {"sums"}


def test_a_finished_operator_stays_with_its_inputs():
    ended = {id_: replace(snapshot, finished=True) for id_, snapshot in RECORDED.snapshots.items()}
    recorded = replace(RECORDED, snapshots=ended)
    assert not find_refusals(recorded, defined())
    more = defined(
        SOURCE, SUMS, SINK, STEP, with_(SOURCE, name="more", plan=plan("more")),
        upstreams=UPSTREAMS | {"sums": ("orders", "more")},
    )  # fmt: skip
    (refusal,) = find_refusals(recorded, more)
    assert (refusal.operator_id, "but now reads more" in refusal.why) == ("sums", True)


@for_each(
    ("status", "words"),
    [
        (PipelineStatus.RUNNING, "can go on from checkpoint 1."),
        (PipelineStatus.CANCELLED, "It is CANCELLED: `tidegate restore p --latest` runs it again, from there."),
        (PipelineStatus.FINISHED, "It is FINISHED: `tidegate restore p --latest` runs it again"),
        (PipelineStatus.SUSPENDED, "It is SUSPENDED: `tidegate resume p` lets it."),
        (PipelineStatus.FAILED, "It is FAILED: `tidegate resume p` lets it."),
    ],
)
def test_the_summary_says_what_leads_to_the_next_run(status, words):
    planned = ChangePlan(PipelineRecord("p", status), RECORDED.record, plan_changes(RECORDED, defined()))
    assert not planned.refuses
    assert words in planned.summary()


def test_without_a_checkpoint_everything_is_new():
    planned = ChangePlan(PipelineRecord("p"), None, plan_changes(None, defined()))
    assert {each.verdict for each in planned.vertices} == {NEW}
    assert "everything starts anew" in planned.summary()


IN_FLIGHT = {
    "from the same source": ([["orders/0", {"split": 0}]], {}, ""),
    "from a split that is gone": ([["orders/1", {"split": 1}]], {}, "from orders/1 to sums, which no longer reads"),
    "from an input that is gone": ([["orders/0", {"split": 0}]], {"sums": ("drawn",)}, "which no longer reads that"),
}


@for_each(("held", "upstreams", "refused"), IN_FLIGHT.values(), ids=IN_FLIGHT)
def test_what_is_in_flight_needs_its_channel(held, upstreams, refused):
    first = SubtaskId("sums", 0)
    snapshots = {**RECORDED.snapshots, first: Snapshot((RUN,), {"in_flight": held})}
    found = find_refusals(replace(RECORDED, snapshots=snapshots), defined(upstreams=UPSTREAMS | upstreams))
    assert [refused in each.why for each in found] == ([True] if refused else [])


@for_each("change", ["nothing", "a column more", "an operator renamed"])
def test_what_an_operator_has_in_flight_keeps_its_columns_and_its_name(change):
    definition = CASES[change][0]
    held = [["sums", {"handles": []}]]
    snapshots = {**RECORDED.snapshots, SubtaskId("drawn", 0): Snapshot((), {"in_flight": held})}
    upstreams = {"drawn": ("totals" if change == "an operator renamed" else "sums",)}
    found = find_refusals(replace(RECORDED, snapshots=snapshots), replace(definition, upstreams=upstreams))
    assert [each.operator_id for each in found] == ([] if change == "nothing" else ["drawn"])
    assert all("take a savepoint" in each.way_out for each in found)


@for_each(
    ("written", "now", "is_refused"),
    [
        ("k int", "k int", False),
        ("k int", "k bigint", True),
        ("k int", None, True),
        (None, "k int", True),
    ],
)
def test_rows_that_were_emitted_are_in_flight_in_the_columns_that_are_declared(written, now, is_refused):
    """Those of the state do not matter to them."""
    file = {"path": "a", "details": {} if written is None else {"output": written}}
    snapshots = {
        **RECORDED.snapshots, SubtaskId("drawn", 0): Snapshot((), {"in_flight": [["sums", {"handles": [file]}]]})
    }  # fmt: skip
    changed = CASES["a column more" if now else "nothing"][0]
    definition = replace(changed, upstreams={"drawn": ("sums",)}, outputs={"sums": now} if now else {})
    found = find_refusals(replace(RECORDED, snapshots=snapshots), definition)
    assert ["in other columns than sums has now" in each.why for each in found] == [True] * is_refused
