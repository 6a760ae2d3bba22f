"""The commit point: write the document that makes a checkpoint readable on its own, then complete the checkpoint in one
transaction.

A commit has landed, has not landed, or its outcome is unknown. An unknown outcome is read from the store, and
nothing is deleted.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import Begun
from tidegate.coordination.steps.participating import Participants, Participating
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.derivations import recorded_sink
from tidegate.pipeline.fingerprint import fingerprint
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, Prefetch, StoreTransaction
from tidegate.protocol.cleaning.retention import choose_subsumed
from tidegate.protocol.continuous.overlap import (
    Subtasks,
    choose_overtaken,
    find_overtaking,
    find_unwanted,
    follows_at_once,
    has_versions,
    subsumed_message,
    wanted,
)
from tidegate.protocol.facts.errors import (
    FinalizeError,
    SinkError,
    StateIntegrityError,
    StorageError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, Deletion, SubtaskId, SubtaskRecord
from tidegate.protocol.observing.events import EventKind
from tidegate.protocol.recovery.metadata import Metadata, metadata_document
from tidegate.protocol.steps.acknowledge import owner_of
from tidegate.protocol.steps.finalize import (
    Landed,
    NotLanded,
    choose_sample,
    decide_landing,
    referred_files,
    sizes,
)
from tidegate.protocol.steps.notify import committables
from tidegate.protocol.steps.restored_snapshots import choose_obsolete
from tidegate.protocol.steps.validate import ValidatedCheckpoint, permit

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class _Verified:
    """Every file exists, with the content that was written."""


class _IsNotToCompleteError(Exception):
    """Raised if the checkpoint has ended, or is overtaken by a newer one. It rolls back the work of
    the participants."""


class CommitPoint:
    """Complete validated checkpoints of one pipeline (protocol.md section 6). May be repeated, also by two processes at
    once."""

    def __init__(
        self,
        context: DefinedContext,
        delivery: Delivery,
        participants: Participants,
        written: Callable[[str], None],
        announced: bool = False,
    ) -> None:
        """Take `written`, which gets the path of each `_metadata` that is written here, and `announced`: whether
        completions become events."""
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._delivery = delivery
        self._participants = participants
        self._written = written
        self._announced = announced

    def reach(self, checkpoint_id: int, notifies: bool) -> CheckpointRecord:
        """Complete a checkpoint and return its record. If the connection is lost during the commit, the outcome is read
        from the store. With `notifies`, this process continues with the notify step, which begins in the same
        transaction.

        Raises as `permit` does if the checkpoint is not validated, `UnknownOutcomeError` if the outcome cannot be
        found out, `FinalizeError` if the commit did not land, `StateIntegrityError` if a file that the checkpoint
        refers to is missing or damaged, and `SinkError` if a sink in the commit cannot show its rows. The checkpoint
        is then not completed.
        """
        with self._context.transaction(Prefetch()) as tx:
            validated = permit(find_checkpoint(tx, self._pipeline_id, checkpoint_id))
            if validated.record.status in COMMITTED:
                return validated.record
            metadata = metadata_of(tx, validated, self._context.graph)
        outcome: _Verified | Landed | NotLanded = self._verify(validated.record, metadata.subtasks)
        if isinstance(outcome, _Verified):
            outcome = self._commit(metadata, self._write_metadata(metadata), notifies)
        if isinstance(outcome, Landed):
            return outcome.record
        raise FinalizeError(
            f"The commit of checkpoint {checkpoint_id} of pipeline {self._pipeline_id} did not take effect "
            f"({outcome.now}). The previous checkpoint is still the latest and nothing became visible. Repeat the "
            "finalize step."
        )

    def _verify(
        self, record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord]
    ) -> _Verified | Landed | NotLanded:
        """Verify the files of the checkpoint, and those that its sinks will make visible. With a cache, no step may
        have read them, and after the checkpoint has completed it is too late.

        If another process has ended the checkpoint meanwhile, its files may be gone, and its outcome counts instead.
        Raises `StateIntegrityError` for a file whose content differs from the one that was written.
        """
        files = referred_files(known.snapshot for known in subtasks.values())
        try:
            self._context.storage.verify(files, choose_sample(record.checkpoint_id, files))
            for vertex in self._context.graph.sinks:
                staged = committables(subtasks, vertex.operator_id)
                vertex.sink.verify(staged, choose_sample(record.checkpoint_id, staged))
        except StateIntegrityError as error:
            if (ended := self._ended(record.checkpoint_id)) is not None:
                return ended
            raise StateIntegrityError(
                f"Checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} was not completed, because it "
                f"refers to a file that is missing or damaged. {error} The previous checkpoint is still the latest and "
                "nothing became visible. After that, repeat the finalize step, or run the pipeline again."
            ) from error
        return _Verified()

    def _ended(self, checkpoint_id: int) -> Landed | NotLanded | None:
        """Return the outcome if another process has ended the checkpoint; None while it is in progress."""
        with self._context.transaction(Prefetch()) as tx:
            now = tx.checkpoint(checkpoint_id)
        return None if now is not None and now.status is Status.IN_PROGRESS else decide_landing(now)

    def _commit(self, metadata: Metadata, path: str, notifies: bool) -> Landed | NotLanded:
        checkpoint_id = metadata.record.checkpoint_id
        try:
            participating = self._participants.prepare(checkpoint_id, metadata.subtasks)
            return self._complete(metadata, path, notifies, participating)
        except (SinkError, StateIntegrityError, StorageError):  # its staged rows may be gone, if it has ended
            if (ended := self._ended(checkpoint_id)) is not None:
                return ended
            raise
        except UnknownOutcomeError:
            log.warning(
                "Checkpoint %s of %s: the outcome of its commit is unknown; checking.", checkpoint_id, self._pipeline_id
            )
            with self._context.transaction() as tx:  # waits for a commit in progress, which holds the same row lock
                return decide_landing(tx.checkpoint(checkpoint_id))

    def _write_metadata(self, metadata: Metadata) -> str:
        try:
            path = write_metadata(self._context.graph, self._context.config, self._context.storage, metadata)
        except StorageError as error:
            raise FinalizeError(
                f"The metadata of checkpoint {metadata.record.checkpoint_id} of pipeline {self._pipeline_id} could not "
                f"be written: {error} The previous checkpoint is still the latest and nothing became visible. Repeat "
                "the finalize step."
            ) from error
        self._written(path)
        return path

    def _complete(
        self, metadata: Metadata, path: str, notifies: bool, participating: Participating
    ) -> Landed | NotLanded:
        try:
            landed, begun = self._transact(metadata, path, notifies, participating)
        except _IsNotToCompleteError:
            return self._give_up(metadata.record.checkpoint_id)
        if begun is not None:
            self._delivery.has_begun(landed.record, begun)
        return landed

    def _transact(
        self, metadata: Metadata, path: str, notifies: bool, participating: Participating
    ) -> tuple[Landed, Begun | None]:
        """Complete the checkpoint in one transaction, with the participants of the sinks in the commit. Another process
        may have completed or aborted it before, but its acknowledgements never change. Older checkpoints in progress
        end with it (protocol.md section 6)."""
        checkpoint_id = metadata.record.checkpoint_id
        snapshots = {key: known.snapshot for key, known in metadata.subtasks.items()}
        state_size, checkpointed_size = sizes(checkpoint_id, snapshots)
        with self._context.transaction(Prefetch(completed=True), participating.participants) as tx:
            now = self._context.clock.now()
            if _is_overtaken(tx, checkpoint_id) or not tx.complete(
                checkpoint_id, now, path, state_size, checkpointed_size, participating.operator_ids
            ):
                raise _IsNotToCompleteError
            if self._announced:
                message = f"Checkpoint {checkpoint_id} of pipeline {self._pipeline_id} has completed."
                tx.add_event(EventKind.CHECKPOINT_COMPLETED, message, now, checkpoint_id)
            if obsolete := choose_obsolete(snapshots, tx.compactions()):
                tx.remove_compactions([compaction.handle.path for compaction in obsolete])
            retained = tx.retained()
            if not follows_at_once(checkpoint_id, retained):
                overtaken = choose_overtaken(checkpoint_id, tx.in_progress())
                self._subsume([older.checkpoint_id for older in overtaken], tx, now)
            if subsumed := choose_subsumed(retained, self._context.config.retention_rule(), now):
                tx.subsume(subsumed)
            landed = decide_landing(tx.checkpoint(checkpoint_id))
            assert isinstance(landed, Landed)
            return landed, self._delivery.begin(tx, landed.record, metadata.subtasks) if notifies else None

    def _give_up(self, checkpoint_id: int) -> Landed | NotLanded:
        """Return the outcome of a checkpoint that cannot complete. One that a newer one overtakes is aborted here."""
        with self._context.transaction(Prefetch()) as tx:
            if _is_overtaken(tx, checkpoint_id):
                self._subsume([checkpoint_id], tx, self._context.clock.now())
            return decide_landing(tx.checkpoint(checkpoint_id))

    def _subsume(self, checkpoint_ids: Sequence[int], tx: StoreTransaction, now: datetime) -> None:
        for checkpoint_id in checkpoint_ids:
            tx.fail(
                checkpoint_id,
                FailureReason.CHECKPOINT_SUBSUMED,
                subsumed_message(self._pipeline_id, checkpoint_id),
                now,
            )


def _is_overtaken(tx: StoreTransaction, checkpoint_id: int) -> bool:
    return tx.last_checkpoint_id() > checkpoint_id and find_overtaking(checkpoint_id, tx.in_progress()) is not None


def metadata_of(tx: StoreTransaction, validated: ValidatedCheckpoint, graph: Graph) -> Metadata:
    """Return the metadata of a validated checkpoint in progress. It is the same for every reader."""
    record = validated.record
    return Metadata(
        record,
        _counted(tx, record),
        tx.verdicts(record.checkpoint_id),
        tx.endpoints(),
        tx.restores(),
        tx.region().attempt,
        definition=fingerprint(graph),
    )


def _counted(tx: StoreTransaction, record: CheckpointRecord) -> Subtasks:
    """Return the subtasks with the versions that follow the latest completed checkpoint. Other versions are dropped. No
    older checkpoint completes after the verdict, so the verdict covers exactly the remaining ones."""
    subtasks = tx.subtasks(record.checkpoint_id)
    if not has_versions(subtasks):
        return subtasks
    latest = tx.latest_completed()
    unwanted = find_unwanted(subtasks, latest)
    files = [Deletion(owner_of(subtask.operator_id, handle.kind), handle.path) for subtask, handle in unwanted]
    tx.drop_staged(record.checkpoint_id, files)
    return wanted(subtasks, latest)


def write_metadata(graph: Graph, config: CheckpointConfig, storage: CheckpointStorage, metadata: Metadata) -> str:
    """Write a checkpoint's `_metadata` and return its path. Every repetition writes the same content, because the
    marker of a completed checkpoint has its checksum. Raises `StorageError`."""
    path = metadata_path(graph.pipeline.name, metadata.record.checkpoint_id)
    document = metadata_document(metadata, described(graph), config.describe())
    storage.write(path, json.dumps(document).encode())
    return path


def described(graph: Graph) -> dict[str, dict[str, Any]]:
    """Return sources, operators and sinks by operator id, for the readers of `_metadata`. `inputs` are the operators
    that each reads."""
    vertices = {v.operator_id: v.source.describe() for v in graph.sources}
    operators: dict[str, dict[str, Any]] = {v.operator_id: {} for v in graph.producers}
    operators |= {v.operator_id: v.describe() for v in graph.keyed}
    sinks = {v.operator_id: recorded_sink(graph, v) for v in graph.sinks}
    inputs = {operator_id: {"inputs": list(names)} for operator_id, names in graph.upstreams.items()}
    return vertices | {id_: facts | inputs[id_] for id_, facts in (operators | sinks).items()}
