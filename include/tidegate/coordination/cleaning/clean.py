"""Report the retained files of a pipeline, with reason and size. Verify them, and delete the
files that are past their retention or left behind.

A report comes first, and the cleaning follows it. Expiring is one transaction, which fills the queue of
deletions. The next process repeats everything else. A cleaning may therefore die anywhere, and may run at the same
time as checkpoints and other cleanings. While a retained file is damaged, nothing is deleted, because a restore may
need it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.cleaning.outdated import OutdatedFiles
from tidegate.coordination.cleaning.referenced_files import Handles, KeptFiles
from tidegate.coordination.cleaning.sweeper import Sweeper
from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import Auditing
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.ownership import Ownership
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.protocol.cleaning.clean_report import CleanReport, Damage, Kept, Weights, by_sink, weigh
from tidegate.protocol.cleaning.retention import Reason, find_reasons, find_undo_reasons
from tidegate.protocol.facts.branches import Restore, choose_withdrawn_for_good
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.records import CheckpointRecord, CompactedRun, Deletion
from tidegate.protocol.observing.actions import ActionAnswer, AnswerStatus, UserAction
from tidegate.protocol.observing.events import KEPT_FOR


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts of a report, as of one transaction. Checkpoints past their retention have no `reasons`."""

    completed: Sequence[CheckpointRecord]
    reasons: dict[int, tuple[Reason, ...]]
    in_progress: Sequence[CheckpointRecord]
    restores: Sequence[Restore]
    merged: Sequence[CompactedRun]
    queued: Sequence[Deletion]

    @property
    def kept(self) -> list[CheckpointRecord]:
        return [record for record in self.completed if self.reasons[record.checkpoint_id]]

    @property
    def expired(self) -> list[CheckpointRecord]:
        return [record for record in self.completed if not self.reasons[record.checkpoint_id]]


class Cleaning:
    """Clean up after one pipeline on request. `Sweeper` does its part of that in each run."""

    def __init__(
        self,
        context: DefinedContext,
        identification: Identification,
        sweeper: Sweeper,
        rewinding: Rewinding,
        ownership: Ownership,
    ) -> None:
        self._context = context
        self._rule = context.config.retention_rule()
        self._identification = identification
        self._sweeper = sweeper
        self._rewinding = rewinding
        self._outdated = OutdatedFiles(context, ownership)
        self._files = KeptFiles(context)
        self._auditing = Auditing(context)

    def clean(self, action: UserAction | None = None) -> CleanReport:
        """Carry out `plan`, unless it found damage. Repeating is safe. Raises as `plan` does, and the errors of sinks,
        after which a part of it is done. A user action is recorded with the plan, before anything is deleted."""
        with self._auditing.attempt(action) as entry:
            report = self.plan()
            if action is not None:
                status = AnswerStatus.REFUSED if report.damage else AnswerStatus.DONE
                sentences = " ".join(report.damage_lines() or report.summary())
                with self._context.transaction() as tx:
                    entry.noted(tx, self._context.clock.now(), ActionAnswer(status, sentences))
            return report if report.damage else self._carry_out(report)

    def _carry_out(self, report: CleanReport) -> CleanReport:
        self._sweeper.clean()
        self._sweeper.delete_leftovers()
        self._rewinding.delete_withdrawn()
        self._outdated.remove()
        with self._context.transaction() as tx:
            tx.forget_events(self._context.clock.now() - KEPT_FOR)
        return replace(report, changed=True)

    def plan(self) -> CleanReport:
        """Report the retained checkpoints and files, and the effects of a cleaning now. Changes nothing.

        Raises `PipelineIdentityError` if the definition or the storage is not the pipeline's, `StorageError`,
        `SinkError`.
        """
        self._identification.check()
        leftovers = self._sweeper.find_leftovers()
        facts = self._facts()
        files = {record.checkpoint_id: self._files.of(record.checkpoint_id) for record in facts.completed}
        kept = {record.checkpoint_id: files[record.checkpoint_id] for record in facts.kept}
        weights = self._weigh(facts, files)
        queued = self._sweeper.deletions.without_referenced(facts.queued)
        withdrawn = self._rewinding.find_withdrawn()
        gone = {id_: choose_withdrawn_for_good(ids, facts.kept, facts.restores) for id_, ids in withdrawn.items()}
        verified = self._files.verify(facts.kept, kept, self._context.clock.now().toordinal())
        return CleanReport(
            self._context.pipeline_id,
            False,
            tuple(Kept(r, facts.reasons[r.checkpoint_id], *weights.each[r.checkpoint_id]) for r in facts.kept),
            weights.total,
            tuple(facts.expired),
            weights.freed,
            tuple(dict.fromkeys([*queued, *leftovers.files, *self._outdated.find()])),
            by_sink(
                {
                    id_: [withdrawn_id for withdrawn_id in ids if withdrawn_id not in gone[id_]]
                    for id_, ids in withdrawn.items()
                }
            ),
            by_sink(gone),
            tuple(leftovers.foreign),
            verified.read,
            tuple(self._still_there(verified.damage)),
        )

    def _weigh(self, facts: _Facts, files: Mapping[int, Handles]) -> Weights:
        sizes = {id_: {file: handle.bytes for file, handle in handles.items()} for id_, handles in files.items()}
        merged = {Deletion(STORAGE, run.handle.path): run.handle.bytes for run in facts.merged}
        in_use = {file for record in facts.in_progress for file in self._files.of(record.checkpoint_id)}
        expired = [sizes[record.checkpoint_id] for record in facts.expired]
        return weigh(
            {record.checkpoint_id: sizes[record.checkpoint_id] for record in facts.kept}, expired, merged, in_use
        )

    def _facts(self) -> _Facts:
        with self._context.transaction() as tx:
            self._identification.require(tx)
            now, retained, abandoned, restores = self._context.clock.now(), tx.retained(), tx.abandoned(), tx.restores()
            reasons = find_reasons(retained, self._rule, now)
            reasons |= find_undo_reasons(abandoned, restores, self._rule, now)
            completed = sorted((*retained, *abandoned), key=lambda record: record.checkpoint_id)
            queued = self._sweeper.deletions.queued(tx)
            return _Facts(completed, reasons, tx.in_progress(), restores, tx.compactions(), queued)

    def _still_there(self, damage: Sequence[Damage]) -> list[Damage]:
        """Drop damage to files that were deleted rightly since: another process has expired their checkpoints."""
        if not damage:
            return []
        ids = {id_ for damaged in damage for id_ in damaged.checkpoints}
        with self._context.transaction() as tx:
            records = {id_: tx.checkpoint(id_) for id_ in ids}
        completed = {id_ for id_, record in records.items() if record is not None and record.status is Status.COMPLETED}
        still_damaged = [
            replace(damaged, checkpoints=tuple(sorted(completed.intersection(damaged.checkpoints))))
            for damaged in damage
        ]
        return [damaged for damaged in still_damaged if damaged.checkpoints]
