"""An operator whose rows expire, in a simulated continuous run: its place in the graph, what its subtasks do, and what
must hold of it. The plain execution is in `running_ages`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.expiring import SPREAD, Judged, alive, plain
from simulator.lasting import stage_lasting
from simulator.running_ages import Ageing, Attempt, Lived, LogRow
from simulator.running_emitting import key_of
from simulator.running_in_the_commit import make_table
from simulator.running_log import rows_of
from simulator.running_topics import TopicTable, has_tables
from simulator.scheduler import require
from simulator.upserting import shown as without_removed
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import Report
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.ports import Segment, SinkInput
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import BY_RUNS_ALONE, TTL, Moment, RecordedTtl

if TYPE_CHECKING:
    from simulator.running import Running
    from simulator.running_parts import PlainJobs

LIVES = "lives"
LIVES_TABLES = {kind: f"{LIVES}_{kind.value.lower()}" for kind in SinkInput}


def add_expiring(world: "Running", pipeline: Pipeline) -> None:
    random = world.expiring
    if random.random() >= 0.25 and not has_tables(world.seed):
        return
    by_event_time = random.random() < 0.4
    lives = {"ttl": f"{random.choice([3, 8])} ms", "ttl_by": "n"} if by_event_time else {}
    lives = lives or {"ttl": f"{random.choice([3, 10, 60])} s"}
    streams = [Stream(pipeline, source.name) for source in world.sources]
    read = streams if random.random() < 0.5 else streams[:1]
    declare = pipeline.keyed(LIVES, inputs=read, key=["k"], state="k bigint, n bigint", **lives)
    rows = declare(Ageing(by_event_time))
    for kind, name in LIVES_TABLES.items():
        draws_upserts = Random(f"upserts running {LIVES} {world.seed}").random() <= 0.3
        if kind is SinkInput.UPSERTS and not (draws_upserts or has_tables(world.seed)):
            continue
        if kind is not SinkInput.CHANGES or random.random() < 0.6:
            rows.sink(name, make_table(world, name, kind))


# -- what its subtasks do


def run_ageing(
    jobs: "PlainJobs", said: Attempt, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan
) -> list[Report]:
    """A micro-batch, or the tables of a snapshot."""
    judged = {index: _judged(jobs, vertex, plan, index) for index in plan.prefixes(vertex)}
    if not execution.has_input:
        return [
            stage_lasting(jobs, sink, vertex, plan, index, judged[index].seen, judged[index].horizon)
            for sink in execution.chain.sinks
            for index in plan.to_restage(execution, sink)
        ]
    rows = [row for data in execution.arrived.values() for row in log_rows(data)]
    reports = []
    for index, prefix in plan.prefixes(vertex).items():
        by_key: dict[int, list[LogRow]] = {}
        for row in rows:
            if jobs._owner(key := key_of(row[1:])) == index:
                by_key.setdefault(key, []).append(row)
        if not by_key:
            continue
        changed = {key: vertex.update.update(judged[index].seen.get(key), mine) for key, mine in by_key.items()}
        stamped, recorded = judged[index].written(changed)
        name = f"{prefix}-{jobs._unique()}"
        run = jobs._write(f"{name}.run", HandleKind.RUN, stamped)
        written = [replace(run, key_groups=jobs._groups(index), details=_details(recorded))]
        if execution.chain.exchanges:
            written.append(jobs._write(f"{name}.rows", HandleKind.EXCHANGE, changed))
        reports.append(Report(vertex.operator_id, index, tuple(written), {}))
    said.processed(rows, plan.at)
    return reports


def merge(
    jobs: "PlainJobs", vertex: KeyedVertex, checkpoint_id: int, chosen: Sequence[StateHandle], index: int, oldest: bool
) -> tuple[Mapping[int, int], dict[str, Any]]:
    """The rows of a run that takes the place of others, and what it says of them."""
    judged = Judged(vertex.ttl, jobs.state(chosen, index), chosen, Moment(checkpoint_id, BY_RUNS_ALONE))
    rows, recorded = judged.merged(chosen, checkpoint_id, oldest)
    return rows, _details(recorded)


def _judged(jobs: "PlainJobs", vertex: KeyedVertex, plan: ExecutionPlan, index: int) -> Judged:
    return Judged(vertex.ttl, jobs.state(plan.runs(vertex, index), index), plan.all_runs(vertex), plan.moment)


def _details(recorded: RecordedTtl | None) -> dict[str, Any]:
    return {} if recorded is None else {TTL: recorded.to_json(), **SPREAD}


def log_rows(data: Iterable[Any]) -> list[LogRow]:
    """Those of segments."""
    return [
        (item.reference["source"], split, at)
        for item in data
        if isinstance(item, Segment)
        for split, at in rows_of(item)
    ]


# -- comparisons


def check_expiring(
    world: "Running",
    record: CheckpointRecord,
    snapshots: Mapping[SubtaskId, Snapshot],
    state: Mapping[int, int],
    rows: Iterable[LogRow],
) -> None:
    """A checkpoint in which the operator has taken in `rows`: what is alive is what a plain execution gives."""
    vertex = next(vertex for vertex in world.graph.keyed if vertex.ttl is not None)
    checkpoint_id, what = record.checkpoint_id, f"checkpoint {record.checkpoint_id}: {LIVES}"
    horizon = world.ages.complete(checkpoint_id, vertex, record.triggered_at)
    lived, read = world.ages.after[checkpoint_id], set(rows)
    world.met["expired"] += len(lived.values) > len(lived.shown)
    require(lived.rows == read, f"{what} has processed {sorted(lived.rows ^ read)} or not, unlike what was read")
    there = plain(vertex.ttl, alive(vertex.ttl, state, horizon))
    require(there == lived.shown, f"{what} has {there} that is alive, and should have {lived.shown}")
    table: Any = next(sink for sink in world.graph.sinks if sink.name == LIVES_TABLES[SinkInput.CURRENT])
    mine = [each for subtask, each in snapshots.items() if subtask.operator_id == table.operator_id]
    paths = [handle.path for each in mine for handle in each.handles if handle.kind is HandleKind.STAGED]
    shown = dict(row for path in paths for row in table.sink.staged[path])
    require(shown == lived.shown, f"{what} shows {shown}, and should show {lived.shown}")


def check_lives_in_the_end(world: "Running") -> None:
    """Readers see what was alive in the latest checkpoint, and the last change of each key."""
    if world.config.mode != "EXACTLY_ONCE":
        return
    lived = world.ages.after.get(world.checks.now, Lived())
    changes = {key: value for key, (value, _) in lived.values.items()}
    for sink in world.graph.sinks:
        table: Any = sink.sink
        if sink.name not in LIVES_TABLES.values():
            continue
        seen = [table.visible[id_] for id_ in sorted(table.visible)]
        current = table.input is SinkInput.CURRENT
        rows = dict(row for files in (seen[-1:] if current else seen) for file in files for row in file)
        rows = table.upserted() if table.input is SinkInput.UPSERTS else rows
        lasting = without_removed(lived.shown) if table.input is SinkInput.UPSERTS else lived.shown
        if isinstance(table, TopicTable) and table.topic.upserts:
            rows = {key: value for key, value in rows.items() if key in lasting or key not in table.left_behind()}
        expected = changes if table.input is SinkInput.CHANGES else lasting
        require(rows == expected, f"{sink.name} shows {rows}, and should show {expected}")
