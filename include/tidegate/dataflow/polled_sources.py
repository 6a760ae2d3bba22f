"""The sources of a continuous region, polled round by round, within limits, until they have been read to their end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.channels import Channels
from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.running import RunningSource
from tidegate.dataflow.source_snapshots import limits, milliseconds_between, with_time
from tidegate.ports import Segment, SourceContext
from tidegate.protocol.barriers.messages import EndOfData, StopMode
from tidegate.protocol.facts.paths import write_prefix
from tidegate.protocol.facts.records import Acknowledgement, Pending, Snapshot, SubtaskId, SubtaskMetrics
from tidegate.protocol.observing.lag import SourceLag, lag_of
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.watermarks import EventTimes, with_event_time

#: A split is polled only while fewer than this number of micro-batches wait in its channel.
_BATCHES_AHEAD = 4


class PolledSources:
    """The sources of a region. The positions of their splits are in `state`."""

    def __init__(
        self,
        parts: Parts,
        sources: Sequence[RunningSource],
        channels: Channels,
        state: LiveState,
        attempt: int,
    ) -> None:
        self._parts = parts
        self._sources = sources
        self._channels = channels
        self._state = state
        self._attempt = attempt
        self._stopped = False
        self._begun: set[str] = set()  # the sources that have been polled
        self._polls: dict[SubtaskId, tuple[Pending, datetime]] = {}

    def poll(self, checkpoint_id: int, at_a_time: Callable[[str], int]) -> tuple[bool, bool]:
        """Poll all sources for the checkpoint with this id, for not many more bytes of each than a micro-batch takes.
        Return whether rows arrived, and whether a split is behind because it has more or because its channel is full.
        """
        arrived = behind = False
        for source in () if self._stopped else self._sources:
            some, more = self._poll_source(source, checkpoint_id, at_a_time(source.name))
            arrived, behind = arrived or some, behind or more
        return arrived, behind

    def settle(self, checkpoint_id: int, at_a_time: Callable[[str], int]) -> None:
        """Poll the sources that had more splits before and have not been polled since. A snapshot has no place for the
        positions of removed splits, so the others must continue from them before it is taken."""
        for source in self._sources:
            if source.name not in self._begun and len(self._before(source)) > len(source.subtasks()):
                self._poll_source(source, checkpoint_id, at_a_time(source.name))

    def _poll_source(self, source: RunningSource, checkpoint_id: int, most: int) -> tuple[bool, bool]:
        subtasks, before, is_first = source.subtasks(), self._before(source), source.name not in self._begun
        self._begun.add(source.name)
        arrived = behind = False
        for split, subtask in enumerate(subtasks):
            if self._is_read(subtask):
                continue
            queued = self._channels.queued_bytes(ChannelName(source.name, split))
            if queued >= _BATCHES_AHEAD * most and not is_first:
                behind = True
                continue
            segment = self._poll(source, split, checkpoint_id, before, most // len(subtasks))
            arrived = arrived or segment is not None
            behind = source.vertex.is_behind(split, segment) or behind
        return arrived, behind

    def _before(self, source: RunningSource) -> dict[SubtaskId, Snapshot]:
        """Return the snapshots of a source's splits. At first they include removed splits, whose rows the others
        continue to read. So the first poll covers every split, and its results are recorded for all splits or none."""
        known = self._state.snapshots
        before = {subtask: known.get(subtask, Snapshot()) for subtask in source.subtasks()}
        if source.name in self._begun:
            return before
        return before | {id_: taken for id_, taken in known.items() if id_.operator_id == source.vertex.operator_id}

    def _poll(
        self,
        source: RunningSource,
        split: int,
        checkpoint_id: int,
        restored: Mapping[SubtaskId, Snapshot],
        max_bytes: int,
    ) -> Segment | None:
        """Poll one split. `restored` are the snapshots of its source's splits before this round of polls."""
        channel, subtask = ChannelName(source.name, split), source.subtasks()[split]
        prefix = f"{write_prefix(self._state.directory, subtask, self._attempt)}-{self._parts.unique()}"
        other_splits = [snapshot for other, snapshot in restored.items() if other != subtask]
        now = self._parts.clock.now()
        context = SourceContext(self._parts.storage, checkpoint_id, prefix, other_splits, max_bytes, now)
        before = self._state.snapshots.get(subtask)
        segment, snapshot = source.vertex.source.poll(split, before, context)
        if source.name in self._parts.graph.watched:
            read = {} if segment is None else self._event_times(subtask, segment)
            snapshot = with_event_time(snapshot, before, read.get(subtask))
            segment = with_time(segment, snapshot)
        self._state.moved(subtask, snapshot)
        if (pending := source.vertex.pending(split)) is not None:
            self._polls[subtask] = pending, self._parts.clock.now()
        if segment is not None:
            self._channels.feed(channel, segment)
        if snapshot.finished:
            self._channels.signal(channel, lambda index: EndOfData(index, StopMode.DRAIN))
        return segment

    def _event_times(self, subtask: SubtaskId, segment: Segment) -> Mapping[SubtaskId, EventTimes]:
        beyond = limits(self._parts.graph, [subtask], self._parts.clock.now())
        return self._parts.jobs.event_times({subtask: segment}, beyond)

    def lag(self) -> tuple[SourceLag, ...]:
        """Return the backlog after the last polls."""
        return lag_of(self._polls)

    def has_ended(self) -> bool:
        """Return whether every split has been read to its end."""
        return all(self._is_read(subtask) for source in self._sources for subtask in source.subtasks())

    def _is_read(self, subtask: SubtaskId) -> bool:
        return self._state.snapshots.get(subtask, Snapshot()).finished

    def stop(self, mode: StopMode) -> None:
        """Stop emitting. Sources stop before they take their snapshots (protocol.md section 18)."""
        self._stopped = True
        for source in self._sources:
            for split, subtask in enumerate(source.subtasks()):
                if not self._is_read(subtask):
                    self._channels.signal(ChannelName(source.name, split), lambda index: EndOfData(index, mode))

    def positions(self, source: RunningSource, task: SnapshotTask, now: datetime) -> list[Acknowledgement]:
        """Return the acknowledgements of the splits of a source that the checkpoint waits for."""
        metrics = SubtaskMetrics(milliseconds_between(task.triggered_at, now), 0, 0, 0, 0, 0)
        taken = []
        for subtask in (subtask for subtask in source.subtasks() if subtask in task.attempts):
            snapshot = self._state.snapshots.get(subtask, Snapshot())
            if task.stop is StopMode.DRAIN:  # it stops here for good, even if data is left unread
                snapshot = replace(snapshot, finished=True)
            taken.append(Acknowledgement(subtask, task.attempts[subtask], snapshot, metrics))
        return taken
