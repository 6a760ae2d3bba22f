"""Rebuilds what the database knew of a pipeline from its checkpoint storage, when the database is lost.

Looking changes nothing. One transaction is the recovery: every checkpoint is recorded by the same steps as when it was
taken, so the store's rules hold for it. The next process commits the sinks, or takes them back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock, NumberedSink, RewindableSink, StoreTransaction
from tidegate.protocol.branches import Branch, Restore, branch_of
from tidegate.protocol.errors import MetadataError, StateIntegrityError
from tidegate.protocol.finalize import referred_files, sizes
from tidegate.protocol.identity import find_moved
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.metadata import Marker, Metadata, read_marker, read_metadata
from tidegate.protocol.paths import ByCheckpoint, marker_path, metadata_path, writer_of
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import Acknowledgement, SubtaskId, SubtaskRecord
from tidegate.protocol.recovered import (
    WITHOUT_TRACE,
    AcceptedLosses,
    Candidate,
    Numbers,
    Recovered,
    RecoveryPlan,
    choose_recovered,
    find_numbers,
    latest_of,
    require_any,
    require_as_marked,
    require_losses_accepted,
    require_own_handles,
    require_unknown,
    withdrawing,
)


class Recovering:
    """Recovers one pipeline into a database that knows no checkpoint of it. Planning changes nothing."""

    def __init__(self, graph: Graph, store: CheckpointStore, storage: CheckpointStorage, clock: Clock) -> None:
        self._graph = graph
        self._pipeline_id = graph.pipeline.name
        self._store = store
        self._storage = storage
        self._clock = clock

    @property
    def url(self) -> str:
        """The checkpoint storage that is recovered from."""
        return self._storage.url

    # -- the plan

    def plan(self, include: Collection[int] = ()) -> RecoveryPlan:
        """What is on storage, and what a recovery would record; `include` are checkpoints in doubt to be recorded too.

        Reads every file that a checkpoint refers to. Raises `RecoveryRefusedError` if the database knows checkpoints of
        the pipeline, or storage has none, and `StorageError`.
        """
        with self._store.transaction(self._pipeline_id) as tx:
            require_unknown(self._pipeline_id, tx.last_checkpoint_id())
        paths = self._storage.list(self._pipeline_id)
        candidates = self._candidates(set(paths))
        chosen, restores, unrecovered = choose_recovered(candidates, include)
        require_any(self._pipeline_id, self._storage.url, chosen, restores, unrecovered)
        latest = latest_of(chosen, restores).metadata
        shown = self._shown_beside(branch_of(latest.record.checkpoint_id, restores))
        return RecoveryPlan(
            self._pipeline_id,
            tuple(chosen),
            tuple(restores),
            tuple(unrecovered),
            tuple(shown),
            tuple(find_moved(latest.endpoints, self._graph.endpoints)),
            self._numbers(paths, candidates).and_(Numbers(max([0, *shown, *(r.last_checkpoint_id for r in restores)]))),
        )

    def _candidates(self, paths: Collection[str]) -> list[Candidate]:
        writers = (writer_of(self._pipeline_id, path) for path in paths)
        ids = sorted({writer.checkpoint_id for writer in writers if isinstance(writer, ByCheckpoint)})
        whole: set[tuple[str, int, str]] = set()
        return [self._candidate(checkpoint_id, paths, whole) for checkpoint_id in ids]

    def _candidate(self, checkpoint_id: int, paths: Collection[str], whole: set[tuple[str, int, str]]) -> Candidate:
        """`whole` are the files that were found to be as they were written, for checkpoints that share them."""
        metadata, marker = None, None
        is_marked = marker_path(self._pipeline_id, checkpoint_id) in paths
        try:
            if metadata_path(self._pipeline_id, checkpoint_id) not in paths:
                raise MetadataError("It has no _metadata: it had not completed, or was deleted.")
            metadata, marker = self._read(checkpoint_id, is_marked)
            require_own_handles(metadata)
            self._verify(metadata, whole)
        except (MetadataError, StateIntegrityError) as error:
            return Candidate(checkpoint_id, is_marked, metadata, marker, str(error))
        return Candidate(checkpoint_id, is_marked, metadata, marker)

    def _read(self, checkpoint_id: int, is_marked: bool) -> tuple[Metadata, Marker | None]:
        content = self._storage.read(metadata_path(self._pipeline_id, checkpoint_id))
        metadata = read_metadata(self._pipeline_id, checkpoint_id, content)
        if not is_marked:
            return metadata, None
        marker = read_marker(
            self._pipeline_id, checkpoint_id, self._storage.read(marker_path(self._pipeline_id, checkpoint_id))
        )
        require_as_marked(marker, content)
        return metadata, marker

    def _verify(self, metadata: Metadata, whole: set[tuple[str, int, str]]) -> None:
        files = {
            (handle.path, handle.bytes, handle.checksum): handle
            for handle in referred_files(known.snapshot for known in metadata.subtasks.values())
        }
        new = [handle for key, handle in files.items() if key not in whole]
        self._storage.verify(new, {handle.path for handle in new})
        whole |= files.keys()

    def _shown_beside(self, branch: Branch) -> list[int]:
        """Checkpoints whose rows tables show, and that the pipeline would not have behind it."""
        sinks = [vertex.sink for vertex in self._graph.sinks]
        shown = [sink.shown_beside(branch) for sink in sinks if isinstance(sink, RewindableSink)]
        return sorted({each.checkpoint_id for found in shown for each in found})

    def _numbers(self, paths: Iterable[str], candidates: Sequence[Candidate]) -> Numbers:
        found = find_numbers(self._pipeline_id, paths)
        for each in candidates:
            if each.metadata is not None:
                found = found.and_(Numbers(region_attempt=each.metadata.region_attempt))
            if each.marker is not None:
                found = found.and_(Numbers(commit_attempt=each.marker.commit_attempt))
        for vertex in self._graph.sinks:
            if isinstance(vertex.sink, NumberedSink):
                checkpoint_id, attempt = vertex.sink.numbers()
                found = found.and_(Numbers(checkpoint_id, commit_attempt=attempt))
        return found

    # -- the recovery itself

    def recover(self, plan: RecoveryPlan, accepted: AcceptedLosses | None = None) -> None:
        """Carry out a plan. Repeating after a crash is safe: either nothing has happened, or all of it.

        Raises `RecoveryRefusedError` if part of the plan is not accepted, or the database has learnt of a checkpoint
        since, `PipelineIdentityError` if sources or sinks were moved and that is not accepted.
        """
        require_losses_accepted(plan, accepted or AcceptedLosses())
        with self._store.transaction(self._pipeline_id) as tx:
            require_unknown(self._pipeline_id, tx.last_checkpoint_id())
            self._record(tx, plan, self._clock.now())

    def _record(self, tx: StoreTransaction, plan: RecoveryPlan, now: datetime) -> None:
        numbers = plan.numbers.and_(Numbers(plan.latest.record.checkpoint_id))
        tx.reserve_numbers(
            numbers.checkpoint_id,
            numbers.region_attempt + WITHOUT_TRACE,
            numbers.commit_attempt + WITHOUT_TRACE,
            now,
        )
        if tx.pipeline().status is PipelineStatus.CREATED:
            tx.move_pipeline(PipelineStatus.RUNNING, now, f"It was recovered from {self._storage.url}.")
        tx.record_endpoints(plan.endpoints, now)
        tx.record_endpoints([each.defined for each in plan.moved], now)
        history = _History(tx, now)
        for recovered in plan.checkpoints:
            history.record_restores(plan.restores, before=recovered.record.checkpoint_id)
            history.record(recovered)
        history.record_notified([each for each in plan.checkpoints if each.notified])
        last = [] if (restore := withdrawing(plan, numbers, now)) is None else [restore]
        history.record_restores([*plan.restores, *last], before=numbers.checkpoint_id + 1)


class _History:
    """Records what has happened once more, oldest first."""

    def __init__(self, tx: StoreTransaction, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self._restored = 0

    def record_restores(self, restores: Sequence[Restore], before: int) -> None:
        """Those that had happened before the checkpoint `before` began."""
        for restore in restores[self._restored :]:
            if restore.last_checkpoint_id >= before:
                return
            self._restored += 1
            present = branch_of(None, restores[: self._restored])
            why = f"The pipeline was restored to checkpoint {restore.checkpoint_id}."
            self._tx.begin_restore(restore, present, why, 0)

    def record(self, recovered: Recovered) -> None:
        """A checkpoint, from its trigger to its completion. One that was in doubt completes now."""
        tx, record, subtasks = self._tx, recovered.record, recovered.metadata.subtasks
        checkpoint_id = record.checkpoint_id
        assert record.acknowledged_at is not None
        assert record.validated_at is not None
        pending = replace(record, status=Status.IN_PROGRESS, phase=Phase.TRIGGERED, num_acknowledged=0, num_finished=0)
        tx.add_pending(replace(pending, acknowledged_at=None, validated_at=None), list(subtasks))
        self._acknowledge(checkpoint_id, subtasks)
        tx.advance(checkpoint_id, Phase.TRIGGERED, Phase.ACKNOWLEDGED, record.acknowledged_at)
        tx.record_verdicts(checkpoint_id, recovered.metadata.verdicts)
        tx.advance(checkpoint_id, Phase.ACKNOWLEDGED, Phase.VALIDATED, record.validated_at)
        completed_at = self._now if recovered.marker is None else recovered.marker.completed_at
        path = metadata_path(record.pipeline_id, checkpoint_id)
        state_size, checkpointed_size = sizes(checkpoint_id, [known.snapshot for known in subtasks.values()])
        tx.complete(checkpoint_id, completed_at, path, state_size, checkpointed_size)

    def _acknowledge(self, checkpoint_id: int, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> None:
        """By attempt, and in the batches in which they had come."""
        attempt = 0
        for (asked, at), batch in groupby(sorted(subtasks.values(), key=_when), key=_when):
            while attempt < asked:
                attempt = self._tx.begin_attempt(checkpoint_id)
            reports = [Acknowledgement(each.subtask, asked, each.snapshot, each.metrics) for each in batch]
            self._tx.record_acknowledgements(checkpoint_id, reports, at)

    def record_notified(self, notified: Sequence[Recovered]) -> None:
        attempt = self._tx.begin_commit(self._now)
        for each in notified:
            self._tx.mark_notified(each.record.checkpoint_id, attempt, self._now)
        self._tx.end_commit(attempt)


def _when(known: SubtaskRecord) -> tuple[int, datetime]:
    assert known.acknowledged_at is not None
    return known.attempt, known.acknowledged_at
