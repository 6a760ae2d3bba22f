"""Snapshots of the sources: the segment that every split reads for this checkpoint, recorded before any operator runs.
A split that has acknowledged is replayed, so that every attempt of a checkpoint sees the same input."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.dataflow.jobs import Parts
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import Acknowledger, Segment, SourceContext
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.protocol.facts.paths import directory, write_prefix
from tidegate.protocol.facts.records import Acknowledgement, AcknowledgeResult, Snapshot, SubtaskId, SubtaskMetrics
from tidegate.protocol.schema.expiry import microseconds
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.watermarks import ahead_of, event_time_of, with_event_time


@dataclass(frozen=True, slots=True)
class SourceSnapshots:
    """The segment before the barrier for each source split; None where nothing has arrived.

    A split that had finished before sends no more barriers and is left out. `ends` are the splits whose data ends here.
    """

    segments: Mapping[SubtaskId, Segment | None]
    ends: Mapping[SubtaskId, StopMode]


def snapshot_sources(parts: Parts, task: SnapshotTask, acknowledge: Acknowledger, now: datetime) -> SourceSnapshots:
    """Poll or replay every split, then acknowledge the polled ones in one call.

    Raise `SupersededAttemptError` if an acknowledgement does not count, and the errors of the sources.
    """
    segments: dict[SubtaskId, Segment | None] = {}
    ends: dict[SubtaskId, StopMode] = {}
    polled: list[Acknowledgement] = []
    for vertex in parts.graph.sources:
        for split in range(vertex.source.num_splits()):
            subtask = SubtaskId(vertex.operator_id, split)
            restored = task.restored.get(subtask, Snapshot())
            if restored.finished:
                continue
            if subtask in task.acknowledged:
                taken = task.acknowledged[subtask]
                replayed = vertex.source.replay(split, task.restored.get(subtask), taken, parts.storage)
                segments[subtask] = with_time(replayed, taken)
            else:
                segments[subtask], acknowledgement = _poll(parts, vertex, subtask, task, now)
                taken = acknowledgement.snapshot
                polled.append(acknowledgement)
            if (end := StopMode.DRAIN if taken.finished else task.stop) is not None:
                ends[subtask] = end
    if polled:
        polled = _timed(parts, segments, polled, task, now)
        segments |= {ack.subtask: with_time(segments[ack.subtask], ack.snapshot) for ack in polled}
        confirm(parts.graph, task, acknowledge, polled)
    return SourceSnapshots(segments, ends)


def _timed(
    parts: Parts,
    segments: Mapping[SubtaskId, Segment | None],
    polled: list[Acknowledgement],
    task: SnapshotTask,
    now: datetime,
) -> list[Acknowledgement]:
    """Return the acknowledgements with the event times of the rows. They are part of the positions, so that a later
    attempt has the same."""
    watched = [ack for ack in polled if ack.subtask.operator_id in parts.graph.watched]
    read = {ack.subtask: segment for ack in watched if (segment := segments[ack.subtask]) is not None}
    times = parts.jobs.event_times(read, limits(parts.graph, read, now)) if read else {}
    return [
        replace(ack, snapshot=with_event_time(ack.snapshot, task.restored.get(ack.subtask), times.get(ack.subtask)))
        if ack in watched
        else ack
        for ack in polled
    ]


def with_time(segment: Segment | None, taken: Snapshot) -> Segment | None:
    """Return the segment with the event times in its split's snapshot."""
    return None if segment is None else replace(segment, event_time=event_time_of(taken), ahead=ahead_of(taken))


def limits(graph: Graph, subtasks: Iterable[SubtaskId], now: datetime) -> dict[SubtaskId, int]:
    """Return the event time beyond which a row counts as ahead of the clock, in microseconds since 1970, for each
    split."""
    most = {v.operator_id: v.event_time.max_ahead for v in graph.sources if v.event_time is not None}
    return {
        subtask: microseconds(now + ahead)
        for subtask in subtasks
        if (ahead := most.get(subtask.operator_id)) is not None
    }


def confirm(
    graph: Graph, task: SnapshotTask, acknowledge: Acknowledger, acknowledgements: list[Acknowledgement]
) -> None:
    """Acknowledge, and stop this attempt if it no longer counts (protocol.md section 5.1)."""
    refused = {AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED}
    answers = acknowledge(acknowledgements)
    lost = sorted(subtask for subtask, answer in answers.items() if answer in refused)
    if lost:
        raise SupersededAttemptError(
            f"Checkpoint {task.checkpoint_id} of pipeline {graph.pipeline.name} has ended or a later attempt has taken "
            f"over: the snapshot of {lost[0]} was answered {answers[lost[0]].value}. The files of this attempt do not "
            "count and will be deleted. No action is needed."
        )


def _poll(
    parts: Parts, vertex: SourceVertex, subtask: SubtaskId, task: SnapshotTask, now: datetime
) -> tuple[Segment | None, Acknowledgement]:
    started = parts.clock.monotonic()
    attempt = task.attempts[subtask]
    below = directory(parts.graph.pipeline.name, task.checkpoint_id)
    prefix = f"{write_prefix(below, subtask, attempt)}-{parts.unique()}"
    other_splits = [snapshot for other, snapshot in task.restored.items() if _is_other_split(other, subtask)]
    context = SourceContext(parts.storage, task.checkpoint_id, prefix, other_splits, now=parts.clock.now())
    segment, snapshot = vertex.source.poll(subtask.subtask_index, task.restored.get(subtask), context)
    if task.stop is StopMode.DRAIN:  # it stops here for good, even if data is left unread
        snapshot = replace(snapshot, finished=True)
    metrics = SubtaskMetrics(
        start_delay=milliseconds_between(task.triggered_at, now),
        alignment_duration=0,
        sync_duration=round((parts.clock.monotonic() - started) * 1000),
        async_duration=0,
        processed_bytes=0 if segment is None else segment.bytes,
        persisted_bytes=0,
    )
    return segment, Acknowledgement(subtask, attempt, snapshot, metrics, vertex.pending(subtask.subtask_index))


def _is_other_split(other: SubtaskId, split: SubtaskId) -> bool:
    """Return whether both are different splits of one source."""
    return other.operator_id == split.operator_id and other != split


def milliseconds_between(before: datetime, after: datetime) -> int:
    return max(0, round((after - before).total_seconds() * 1000))
