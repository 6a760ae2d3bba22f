"""Rebuild the records of a pipeline from its checkpoint storage, when the database is lost.

Planning changes nothing. One transaction is the recovery. It records every checkpoint by the same steps as when it
was taken, so the store's rules apply. The next process commits the sinks, or rewinds them.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import Auditing
from tidegate.coordination.observing.history import History
from tidegate.coordination.steps.ownership import Ownership
from tidegate.ports import NumberedSink, RewindableSink, StoreTransaction
from tidegate.protocol.facts.branches import Branch, branch_of
from tidegate.protocol.facts.errors import MetadataError, StateIntegrityError
from tidegate.protocol.facts.paths import ByCheckpoint, marker_path, metadata_path, writer_of
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.observing.actions import UserAction
from tidegate.protocol.recovery.identity import find_moved
from tidegate.protocol.recovery.lost_database import (
    WITHOUT_TRACE,
    AcceptedLosses,
    Candidate,
    Numbers,
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
from tidegate.protocol.recovery.marker import Marker, read_marker
from tidegate.protocol.recovery.metadata import Metadata, read_metadata
from tidegate.protocol.recovery.ownership import Place, refused_places, require_own_places
from tidegate.protocol.steps.finalize import referred_files


class Recovering:
    """Recover one pipeline into a database that has no checkpoint of it. Planning changes nothing."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context
        self._ownership = Ownership(context)
        self._auditing = Auditing(context)

    @property
    def url(self) -> str:
        """The checkpoint storage that is recovered from."""
        return self._context.storage.url

    # -- the plan

    def plan(self, include: Collection[int] = ()) -> RecoveryPlan:
        """Plan a recovery from the checkpoints on storage. `include` are checkpoints in doubt that are recorded too.

        Reads every file that a checkpoint refers to. Raises `RecoveryRefusedError` if the database has checkpoints
        of the pipeline, or storage has none, `PipelineIdentityError` if a sink writes where another pipeline does,
        and `StorageError`.
        """
        self._require_unknown()
        self._own_places()
        paths = self._context.storage.list(self._context.pipeline_id)
        candidates = self._candidates(set(paths))
        chosen, restores, unrecovered = choose_recovered(candidates, include)
        require_any(self._context.pipeline_id, self._context.storage.url, chosen, restores, unrecovered)
        latest = latest_of(chosen, restores).metadata
        shown = self._shown_outside(branch_of(latest.record.checkpoint_id, restores))
        return RecoveryPlan(
            self._context.pipeline_id,
            tuple(chosen),
            tuple(restores),
            tuple(unrecovered),
            tuple(shown),
            tuple(find_moved(latest.endpoints, self._context.graph.endpoints)),
            self._numbers(paths, candidates).and_(Numbers(max([0, *shown, *(r.last_checkpoint_id for r in restores)]))),
        )

    def _require_unknown(self) -> None:
        """Require that the database has no checkpoint of the pipeline. An id alone may come from a
        restore that failed."""
        known = self._context.store.history(self._context.pipeline_id, 1)
        require_unknown(self._context.pipeline_id, known[0].checkpoint_id if known else 0)

    def _own_places(self) -> list[Place]:
        """Return the pipeline's places, its sinks' directories and its storage, which may carry the mark of the lost
        database."""
        places = self._ownership.find(())
        require_own_places(self._context.pipeline_id, refused_places(places, regains=True))
        return places

    def _candidates(self, paths: Collection[str]) -> list[Candidate]:
        writers = (writer_of(self._context.pipeline_id, path) for path in paths)
        ids = sorted({writer.checkpoint_id for writer in writers if isinstance(writer, ByCheckpoint)})
        whole: set[tuple[str, int, str]] = set()
        return [self._candidate(checkpoint_id, paths, whole) for checkpoint_id in ids]

    def _candidate(self, checkpoint_id: int, paths: Collection[str], whole: set[tuple[str, int, str]]) -> Candidate:
        """Read and verify a checkpoint. `whole` are the files that were verified already, for checkpoints that share
        them."""
        metadata, marker = None, None
        is_marked = marker_path(self._context.pipeline_id, checkpoint_id) in paths
        try:
            if metadata_path(self._context.pipeline_id, checkpoint_id) not in paths:
                raise MetadataError("It has no _metadata: it had not completed, or was deleted.")
            metadata, marker = self._read(checkpoint_id, is_marked)
            require_own_handles(metadata)
            self._verify(metadata, whole)
        except (MetadataError, StateIntegrityError) as error:
            return Candidate(checkpoint_id, is_marked, metadata, marker, str(error))
        return Candidate(checkpoint_id, is_marked, metadata, marker)

    def _read(self, checkpoint_id: int, is_marked: bool) -> tuple[Metadata, Marker | None]:
        content = self._context.storage.read(metadata_path(self._context.pipeline_id, checkpoint_id))
        metadata = read_metadata(self._context.pipeline_id, checkpoint_id, content)
        if not is_marked:
            return metadata, None
        marker = read_marker(
            self._context.pipeline_id,
            checkpoint_id,
            self._context.storage.read(marker_path(self._context.pipeline_id, checkpoint_id)),
        )
        require_as_marked(marker, content)
        return metadata, marker

    def _verify(self, metadata: Metadata, whole: set[tuple[str, int, str]]) -> None:
        files = {
            (handle.path, handle.bytes, handle.checksum): handle
            for handle in referred_files(known.snapshot for known in metadata.subtasks.values())
        }
        new = [handle for key, handle in files.items() if key not in whole]
        self._context.storage.verify(new, {handle.path for handle in new})
        whole |= files.keys()

    def _shown_outside(self, branch: Branch) -> list[int]:
        """Return the checkpoints whose rows tables show, but which are not on the pipeline's branch."""
        sinks = [vertex.sink for vertex in self._context.graph.sinks]
        shown = [sink.shown_outside(branch) for sink in sinks if isinstance(sink, RewindableSink)]
        return sorted({rows.checkpoint_id for of_sink in shown for rows in of_sink})

    def _numbers(self, paths: Iterable[str], candidates: Sequence[Candidate]) -> Numbers:
        numbers = find_numbers(self._context.pipeline_id, paths)
        for candidate in candidates:
            if candidate.metadata is not None:
                numbers = numbers.and_(Numbers(region_attempt=candidate.metadata.region_attempt))
            if candidate.marker is not None:
                numbers = numbers.and_(Numbers(commit_attempt=candidate.marker.commit_attempt))
        for vertex in self._context.graph.sinks:
            if isinstance(vertex.sink, NumberedSink):
                checkpoint_id, attempt = vertex.sink.numbers()
                numbers = numbers.and_(Numbers(checkpoint_id, commit_attempt=attempt))
        return numbers

    # -- the recovery itself

    def recover(
        self, plan: RecoveryPlan, accepted: AcceptedLosses | None = None, action: UserAction | None = None
    ) -> None:
        """Carry out a plan. Repeating after a crash is safe: either nothing has happened, or all of it.

        Raises `RecoveryRefusedError` if part of the plan is not accepted, or the database has a checkpoint by now,
        `PipelineIdentityError` if sources or sinks were moved and that is not accepted.
        """
        with self._auditing.attempt(action) as entry:
            require_losses_accepted(plan, accepted or AcceptedLosses())
            with self._context.transaction() as tx:
                self._require_unknown()
                self._ownership.mark(self._own_places(), regains=True)
                now, latest = self._context.clock.now(), plan.latest.record.checkpoint_id
                self._record(tx, plan, now)
                sentence = f"Pipeline {self._context.pipeline_id} was recovered to checkpoint {latest} from {self.url}."
                entry.done(tx, now, sentence, latest)

    def _record(self, tx: StoreTransaction, plan: RecoveryPlan, now: datetime) -> None:
        numbers = plan.numbers.and_(Numbers(plan.latest.record.checkpoint_id))
        tx.reserve_numbers(
            numbers.checkpoint_id,
            numbers.region_attempt + WITHOUT_TRACE,
            numbers.commit_attempt + WITHOUT_TRACE,
            now,
        )
        if tx.pipeline().status is PipelineStatus.CREATED:
            tx.move_pipeline(PipelineStatus.RUNNING, now, f"It was recovered from {self._context.storage.url}.")
        tx.record_endpoints(plan.endpoints, now)
        tx.record_endpoints([move.defined for move in plan.moved], now)
        history = History(tx, now)
        for recovered in plan.checkpoints:
            history.record_restores(plan.restores, before=recovered.record.checkpoint_id)
            history.record(recovered)
        history.record_notified([recovered for recovered in plan.checkpoints if recovered.notified])
        last = [] if (restore := withdrawing(plan, numbers, now)) is None else [restore]
        history.record_restores([*plan.restores, *last], before=numbers.checkpoint_id + 1)
