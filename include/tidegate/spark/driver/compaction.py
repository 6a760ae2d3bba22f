"""Merging of runs where a subtask has too many: one Spark job for all of them, after every subtask has acknowledged.

`tidegate.state.compaction` decides which runs are worth merging, and how. The coordinator decides when the merged run
is used.
"""

from collections.abc import Mapping

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.paths import compaction_prefix
from tidegate.protocol.facts.records import CompactedRun, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import BY_RUNS_ALONE, Moment
from tidegate.spark.driver.run_job import collect_numbered
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.spark.executor.partitions import CompactionPlan, Merge
from tidegate.state.compaction import plan_compaction
from tidegate.state.expiring import decide_expiry
from tidegate.state.runs import newest_of


def compact_runs(
    graph: Graph,
    streams: Streams,
    location: StateLocation,
    checkpoint_id: int,
    snapshots: Mapping[SubtaskId, Snapshot],
    below: str,
) -> list[CompactedRun]:
    """See `ports.Region.compact`. Write `below` a directory on checkpoint storage.

    Raise `CheckpointError`s. The existing runs stay as they are.
    """
    merges = _plan(graph, streams, location, checkpoint_id, snapshots, below)
    if not merges:
        return []
    where = f"the compaction of pipeline {graph.pipeline.name!r}"
    reports = collect_numbered(streams.session, CompactionPlan(tuple(merges)), len(merges), where)
    replaced = {SubtaskId(merge.spec.operator, merge.index): merge.chosen for merge in merges}
    compacted = []
    for report in reports:
        subtask = SubtaskId(report.operator_id, report.subtask_index)
        views = tuple(run.view for run in replaced[subtask])
        compacted += [CompactedRun(subtask, handle, views) for handle in report.handles]
    return compacted


def _plan(
    graph: Graph,
    streams: Streams,
    location: StateLocation,
    checkpoint_id: int,
    snapshots: Mapping[SubtaskId, Snapshot],
    below: str,
) -> list[Merge]:
    merges = []
    for vertex in graph.keyed:
        runs = [_runs(snapshots, vertex, index) for index in range(graph.pipeline.parallelism)]
        if max(map(len, runs)) <= 1:
            continue
        together = [run for of_subtask in runs for run in of_subtask]
        moment = Moment(checkpoint_id, BY_RUNS_ALONE)
        layout = location.succeeding(vertex, streams.layout(vertex), together, moment)
        if (layout.ttl or layout.expired) and newest_of(together).details.get("layout") != layout.fingerprint:
            continue  # a run in this layout begins a time to live, which only a checkpoint may decide
        expiry = decide_expiry(layout, together, moment)
        for index, own in enumerate(runs):
            if len(own) > 1:
                prefix = compaction_prefix(below, SubtaskId(vertex.operator_id, index))
                spec = location.spec(vertex, layout, index, own, checkpoint_id, expiry, prefix)
                if chosen := plan_compaction(spec):
                    merges.append(Merge(index, spec, chosen))
    return merges


def _runs(snapshots: Mapping[SubtaskId, Snapshot], vertex: KeyedVertex, index: int) -> list[StateHandle]:
    handles = snapshots.get(SubtaskId(vertex.operator_id, index), Snapshot()).handles
    return [handle for handle in handles if handle.kind is HandleKind.RUN]
