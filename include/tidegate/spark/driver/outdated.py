"""Outdated staged rows of tables: those in other columns than the state has now.

Otherwise a table of current rows would contain rows of both kinds until rows arrive for all of its keys.
"""

from collections.abc import Mapping
from dataclasses import replace

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.handles import layout_version
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import Moment
from tidegate.protocol.steps.in_flight import find_stranded
from tidegate.protocol.steps.refusal import require_none
from tidegate.protocol.steps.sink_marks import SinkMark, without_mark
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.state.layout import StateLayout
from tidegate.state.runs import newest_of


def without_outdated(
    graph: Graph, streams: Streams, location: StateLocation, restored: Mapping[SubtaskId, Snapshot]
) -> Mapping[SubtaskId, Snapshot]:
    """Return `restored` without the staged files that have other columns. Raise `CheckpointError`s, for example if the
    state does not fit the definition."""
    result = dict(restored)
    in_flight = any((snapshot.position or {}).get("in_flight") for snapshot in restored.values())
    changed = set()
    for vertex in graph.keyed:
        ids = {sink.operator_id for sink in graph.downstream(vertex.name)} & graph.showing_state
        runs = _handles(restored, vertex.operator_id, HandleKind.RUN)
        shown = (snapshot for id_, snapshot in restored.items() if id_.operator_id in ids)
        if runs and (in_flight or any(map(_has_columns, shown))):
            layout = _layout(streams, location, vertex, runs)
            result |= {id_: _fitting(taken, layout) for id_, taken in restored.items() if id_.operator_id in ids}
            if layout_version(newest_of(runs)) != layout.version:
                changed.add(vertex.operator_id)
    require_none(find_stranded(graph.pipeline.name, restored, graph.plan, graph.upstreams, changed, graph.outputs))
    return result


def _has_columns(snapshot: Snapshot) -> bool:
    mark = SinkMark.of(snapshot)
    if mark is not None:
        return mark.layout is not None
    return any(handle.kind is HandleKind.STAGED for handle in snapshot.handles)


def _handles(restored: Mapping[SubtaskId, Snapshot], operator_id: str, kind: HandleKind) -> list[StateHandle]:
    return [
        handle
        for id_, snapshot in restored.items()
        if id_.operator_id == operator_id
        for handle in snapshot.handles
        if handle.kind is kind
    ]


def _layout(streams: Streams, location: StateLocation, vertex: KeyedVertex, runs: list[StateHandle]) -> StateLayout:
    try:
        return location.succeeding(vertex, streams.layout(vertex), runs, Moment(0, 0))  # whether it differs
    except CheckpointError:
        raise
    except Exception as error:
        raise as_checkpoint_error(error, streams.where(vertex)) from error


def _fitting(snapshot: Snapshot, layout: StateLayout) -> Snapshot:
    kept = (
        handle
        for handle in snapshot.handles
        if handle.kind is not HandleKind.STAGED or handle.details.get("layout") == layout.fingerprint
    )
    mark = SinkMark.of(snapshot)
    is_outdated = mark is not None and mark.layout not in (None, layout.fingerprint)
    return replace(without_mark(snapshot) if is_outdated else snapshot, handles=tuple(kept))
