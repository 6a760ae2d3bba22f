"""A transaction of the store in memory: the same answers as on Postgres, one fact a line."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory_pipeline_writes import MemoryPipelineWrites
from memory_state import as_json

from tidegate.protocol.cleaning.rollup import may_be_rolled_up
from tidegate.protocol.continuous.overlap import FOLLOWS
from tidegate.protocol.continuous.regions import directory_in_use, swept
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Stage, Status, is_legal
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    CompactedRun,
    Decided,
    Decision,
    Deletion,
    HandleKind,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.steps.acknowledge import owner_of
from tidegate.protocol.steps.committing import is_committing
from tidegate.protocol.text.storable import storable_json, storable_text


class MemoryTransaction(MemoryPipelineWrites):
    """`ports.StoreTransaction` over a copy of the pipeline's state."""

    # -- writes

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        if record.pipeline_id != self.pipeline_id or record.num_subtasks != len(subtasks):
            raise ValueError(f"{record} does not belong to {self.pipeline_id} with {len(subtasks)} subtasks")
        self._require((record.status, record.phase) == (Status.IN_PROGRESS, Phase.TRIGGERED), "it begins elsewhere")
        self._require(record.checkpoint_id not in self.state.checkpoints, "the id is taken")
        self._require(record.checkpoint_id >= 1 and bool(record.request_id), "no id or request")
        self._require(len(set(subtasks)) == len(subtasks) >= 1, "subtasks are missing or named twice")
        self._require(record.deadline >= record.triggered_at, "the deadline lies before the trigger")
        self._require_drain_to_stop(record)
        earlier = self.latest_by_request(record.request_id)
        is_there = earlier is not None and earlier.status is not Status.FAILED and earlier.abandoned_by is None
        self._require(not is_there, "the request has a checkpoint")
        self._require_label(record)
        self.state.checkpoints[record.checkpoint_id] = record.moved(note=record.note and storable_text(record.note))
        self.state.subtasks[record.checkpoint_id] = {subtask: SubtaskRecord(subtask, 0) for subtask in subtasks}
        self.state.last_checkpoint_id = max(self.state.last_checkpoint_id, record.checkpoint_id)

    def begin_attempt(self, checkpoint_id: int) -> int:
        checkpoint = self._known(checkpoint_id)
        subtasks = self.state.subtasks[checkpoint_id]
        latest = max(record.attempt for record in subtasks.values())
        open_ = [record for record in subtasks.values() if record.acknowledged_at is None]
        if checkpoint.status is not Status.IN_PROGRESS or not open_:
            return latest
        self.state.subtasks[checkpoint_id] = subtasks | {r.subtask: replace(r, attempt=latest + 1) for r in open_}
        return latest + 1

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime, moves: bool = False
    ) -> int:
        checkpoint = self._known(checkpoint_id)
        subtasks = dict(self.state.subtasks[checkpoint_id])
        for reported in acknowledgements:
            record = subtasks.get(reported.subtask)
            counts = (
                checkpoint.status is Status.IN_PROGRESS
                and record is not None
                and record.acknowledged_at is None
                and record.attempt == reported.attempt
            )
            if counts:
                asked = reported.attempt >= 1 or reported.snapshot.finished
                self._require(asked, "nobody asked the subtask yet")
                snapshot = self._stored(checkpoint_id, reported.snapshot)
                subtasks[reported.subtask] = SubtaskRecord(
                    reported.subtask, reported.attempt, at, snapshot, reported.metrics
                )
        acknowledged = sum(record.acknowledged_at is not None for record in subtasks.values())
        finished = sum(record.snapshot.finished for record in subtasks.values())
        self.state.subtasks[checkpoint_id] = subtasks
        self.state.checkpoints[checkpoint_id] = checkpoint.moved(num_acknowledged=acknowledged, num_finished=finished)
        if moves and acknowledged == checkpoint.num_subtasks:
            self.advance(checkpoint_id, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at)
        return checkpoint.num_subtasks - acknowledged

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        if not is_legal((Status.IN_PROGRESS, before), (Status.IN_PROGRESS, after)):
            raise ValueError(f"phase {after} cannot follow {before}")
        if Phase.HELD in (before, after):
            raise ValueError("a hold begins with `hold` and ends with `decide`")
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or (checkpoint.status, checkpoint.phase) != (Status.IN_PROGRESS, before):
            return False
        self._require(checkpoint.num_acknowledged == checkpoint.num_subtasks, "subtasks have not acknowledged")
        times = {Phase.ACKNOWLEDGED: "acknowledged_at", Phase.VALIDATED: "validated_at"}
        self._move(checkpoint, (Status.IN_PROGRESS, after), **{times[after]: at})
        return True

    def record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict]) -> None:
        self._require(checkpoint_id in self.state.checkpoints or not verdicts, "there is no such checkpoint")
        self._require(len({(v.target, v.suite) for v in verdicts}) == len(verdicts), "a target is judged twice")
        for verdict in verdicts:
            self._require(verdict.success is not None or verdict.error is not None, "it does not say what failed")
        self.state.verdicts[checkpoint_id] = [
            replace(v, results=tuple(as_json(storable_json(v.results))), error=v.error and storable_text(v.error))
            for v in verdicts
        ]

    def accept(self, checkpoint_id: int, verdicts: Sequence[Verdict], at: datetime) -> bool:
        accepted = self.advance(checkpoint_id, Phase.ACKNOWLEDGED, Phase.VALIDATED, at)
        if accepted:
            self.record_verdicts(checkpoint_id, verdicts)
        return accepted

    def hold(self, checkpoint_id: int, until: datetime, message: str, at: datetime) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or (checkpoint.status, checkpoint.phase) != (Status.IN_PROGRESS, Phase.ACKNOWLEDGED):
            return False
        self._require(until > at, "a hold ends before it begins")
        held = {"held_at": at, "held_until": until, "held_message": storable_text(message)}
        self._move(checkpoint, (Status.IN_PROGRESS, Phase.HELD), **held)
        return True

    def decide(self, checkpoint_id: int, decided: Decided, deadline: datetime) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or (checkpoint.status, checkpoint.phase) != (Status.IN_PROGRESS, Phase.HELD):
            return False
        self._require(checkpoint.decision is None, "it was decided before")
        assert checkpoint.held_until is not None
        self._require(decided.at < checkpoint.held_until and decided.by != "", "nobody may decide any more")
        checkpoint = checkpoint.moved(
            decision=decided.decision,
            decided_at=decided.at,
            decided_by=decided.by,
            decision_comment=decided.comment and storable_text(decided.comment),
        )
        if decided.decision is Decision.REJECTED:
            self.state.checkpoints[checkpoint_id] = checkpoint
        else:
            validated = (Status.IN_PROGRESS, Phase.VALIDATED)
            self._move(checkpoint, validated, validated_at=decided.at, deadline=deadline)
        return True

    def correct_deadline(self, checkpoint_id: int, deadline: datetime) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or checkpoint.status is not Status.IN_PROGRESS:
            return False
        self.state.checkpoints[checkpoint_id] = checkpoint.moved(deadline=deadline)
        return True

    def complete(
        self,
        checkpoint_id: int,
        at: datetime,
        metadata_path: str,
        state_size: int,
        checkpointed_size: int,
        committed_sinks: Sequence[str] = (),
    ) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or (checkpoint.status, checkpoint.phase) != (Status.IN_PROGRESS, Phase.VALIDATED):
            return False
        self._confined(metadata_path)
        self._require(state_size >= 0 and checkpointed_size >= 0, "a size is negative")
        self._move(
            checkpoint,
            (Status.COMPLETED, Phase.VALIDATED),
            completed_at=at,
            metadata_path=metadata_path,
            state_size=state_size,
            checkpointed_size=checkpointed_size,
            committed_sinks=tuple(committed_sinks),
        )
        return True

    def drop_staged(self, checkpoint_id: int, files: Sequence[Deletion]) -> None:
        if not files:
            return
        self._require(self._known(checkpoint_id).status is Status.IN_PROGRESS, "what has ended stays as it is")
        gone = set(files)
        rows = dict(self.state.subtasks[checkpoint_id])
        for subtask, row in rows.items():
            handles = row.snapshot.handles
            going = [h for h in handles if Deletion(owner_of(subtask.operator_id, h.kind), h.path) in gone]
            versions = all(h.kind is HandleKind.STAGED and FOLLOWS in h.details for h in going)
            self._require(versions, "only versions are dropped")
            kept = tuple(handle for handle in handles if handle not in going)
            rows[subtask] = replace(row, snapshot=replace(row.snapshot, handles=kept))
        self.state.subtasks[checkpoint_id] = rows
        self._enqueue(files)

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        if checkpoint is None or checkpoint.status is not Status.IN_PROGRESS:
            return False
        rejected = reason is FailureReason.VALIDATION_REJECTED
        self._require(rejected == (checkpoint.decision is Decision.REJECTED), "nobody has rejected it, or somebody has")
        failed = (Status.FAILED, checkpoint.phase)
        self._move(checkpoint, failed, failed_at=at, failure_reason=reason, failure_message=storable_text(message))
        self._release({checkpoint_id}, given_up_by=checkpoint_id)
        return True

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        completed = {c.checkpoint_id for c in self._in_order() if c.status is Status.COMPLETED}
        leaving = completed & set(checkpoint_ids)
        for id_ in leaving:
            self._move(self.state.checkpoints[id_], (Status.SUBSUMED, Phase.VALIDATED))
        self._release(leaving)

    def relabel(self, checkpoint_id: int, label: Label) -> None:
        known = self._known(checkpoint_id)
        self._require_label(replace(known, name=label.name, note=label.note))
        note = label.note and storable_text(label.note)
        self.state.checkpoints[checkpoint_id] = known.moved(name=label.name, note=note)

    def mark_notified(self, checkpoint_id: int, attempt: int, at: datetime, ends: bool = False) -> bool:
        checkpoint = self.state.checkpoints.get(checkpoint_id)
        current = is_committing(self.state.committer, attempt)
        if current and checkpoint is not None and checkpoint.notified_at is None:
            self._require(checkpoint.status in COMMITTED, "it has not completed")
            self.state.checkpoints[checkpoint_id] = checkpoint.moved(notified_at=at)
        if ends:
            self.end_commit(attempt)
        return current

    def add_compactions(self, compactions: Sequence[CompactedRun]) -> None:
        for run in compactions:
            self._require(run.handle.path not in self.state.compactions, "the run is there already")
            self._require(len(run.replaces) >= 1, "it replaces nothing")
            self._confined(run.handle.path)
            handle = replace(run.handle, details=as_json(run.handle.details))
            self.state.compactions[run.handle.path] = replace(run, handle=handle)

    def remove_compactions(self, paths: Sequence[str]) -> None:
        removed = [path for path in paths if self.state.compactions.pop(path, None) is not None]
        live = {file for _, _, file in self.state.live()}
        self._enqueue(file for path in removed if (file := Deletion("storage", path)) not in live)

    # -- garbage

    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        self._require(given_up_by is None or given_up_by >= 1, "no checkpoint has that id")
        for deletion in deletions:
            self._confined(deletion.path)
            kind, _, name = deletion.owner.partition(":")
            known = deletion.owner == "storage" or (kind in ("sink", "savepoint") and name != "")
            self._require(known, "nobody owns the file")
        self._enqueue(deletions, given_up_by)

    def pending_deletions(self, limit: int) -> list[Deletion]:
        if not self.state.deletions:
            return []
        live = {file for _, _, file in self.state.live()}
        free = [deletion for deletion, by in self.state.deletions.items() if not self._may_be_wanted(deletion, by)]
        return [deletion for deletion in free if deletion not in live][:limit]

    def _may_be_wanted(self, deletion: Deletion, given_up_by: int | None) -> bool:
        in_use, latest = directory_in_use(self.pipeline_id, self.state.region), self.latest_completed()
        if given_up_by is None or in_use is None or deletion.owner != "storage":
            return False
        return deletion.path.startswith(in_use + "/") and (latest is None or given_up_by >= latest.checkpoint_id)

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None:
        for deletion in deletions:
            self.state.deletions.pop(deletion, None)

    def mark_discarded(self, gone: Sequence[Deletion] = ()) -> None:
        self.remove_deletions(gone)
        for checkpoint in self._in_order():
            files = {file for file, _ in self.state.handles(checkpoint.checkpoint_id)}
            files.add(Deletion("storage", checkpoint.metadata_path or ""))
            if checkpoint.status is Status.SUBSUMED and files.isdisjoint(self.state.deletions):
                self._move(checkpoint, (Status.DISCARDED, Phase.VALIDATED))

    def unswept(self) -> dict[int, datetime]:
        checkpoints = {c.checkpoint_id: c.completed_at or c.failed_at for c in self._in_order()}
        found = {id_: ended for id_, (_, ended) in self.state.imports.items() if ended is not None}
        found |= {id_: at for id_, at in checkpoints.items() if at is not None and id_ not in self.state.swept}
        return dict(sorted(found.items()))

    def mark_swept(self, checkpoint_ids: Sequence[int]) -> None:
        known = frozenset(checkpoint_ids) & self.state.checkpoints.keys()
        ended = all(self.state.checkpoints[id_].status is not Status.IN_PROGRESS for id_ in known)
        self._require(ended, "it has not ended")
        self.state.swept = self.state.swept | known
        for id_ in self.state.imports.keys() - self.imports().keys():
            if id_ in checkpoint_ids:
                del self.state.imports[id_]

    def roll_up(self, checkpoint_ids: Sequence[int]) -> None:
        """What its subtasks come to is seen on pages, which read Postgres: here they only go."""
        for id_ in set(checkpoint_ids) - self.state.rolled_up:
            self._require(may_be_rolled_up(self._known(id_)), "it is a savepoint, or somebody needs what belongs to it")
            self.state.rolled_up = self.state.rolled_up | {id_}
            self.state.subtasks[id_] = {}

    def live_paths(self, *checkpoint_ids: int) -> set[Deletion]:
        return {file for _, creator, file in self.state.live() if creator in checkpoint_ids}

    def live_below(self, directory: str) -> set[Deletion]:
        live = {file for _, _, file in self.state.live()}
        return {file for file in live if file.owner == "storage" and file.path.startswith(directory + "/")}

    def mark_regions_swept(self, attempt: int) -> None:
        self._require(0 <= attempt <= self.state.region.attempt, "there was no such region")
        self.state.region = swept(self.state.region, attempt)

    # -- inside

    def _move(self, checkpoint: CheckpointRecord, after: Stage, **changes: Any) -> None:
        self._require(is_legal((checkpoint.status, checkpoint.phase), after), "the transition is illegal")
        moved = checkpoint.moved(status=after[0], phase=after[1], **changes)
        self.state.checkpoints[checkpoint.checkpoint_id] = moved

    def _release(self, leaving: set[int], given_up_by: int | None = None) -> None:
        released = {file for id_ in leaving for file, _ in self.state.handles(id_)}
        paths = [self.state.checkpoints[id_].metadata_path for id_ in leaving]
        released |= {Deletion("storage", path) for path in paths if path is not None}
        live = {file for id_, _, file in self.state.live() if id_ not in leaving}
        self._enqueue(sorted(released - live, key=lambda deletion: (deletion.owner, deletion.path)), given_up_by)

    def _enqueue(self, deletions: Iterable[Deletion], given_up_by: int | None = None) -> None:
        for deletion in deletions:
            self.state.deletions.setdefault(deletion, given_up_by)

    def _stored(self, checkpoint_id: int, snapshot: Snapshot) -> Snapshot:
        for handle in snapshot.handles:
            if "\0" in handle.path + handle.checksum:
                raise ValueError(f"a handle of {self.pipeline_id!r} holds a NUL character")
            self._confined(handle.path)
            self._require(1 <= handle.created_by <= checkpoint_id, "a handle is of a later checkpoint")
        return Snapshot(
            tuple(replace(handle, details=as_json(handle.details)) for handle in snapshot.handles),
            as_json(snapshot.position),
            snapshot.finished,
        )

    def _confined(self, path: str) -> None:
        outside = not path or path.startswith("/") or ".." in path.split("/")
        self._require(not outside, f"the path {path!r} leaves its root")
