"""The validate step: validate the staged rows before any of them is visible, and abort the checkpoint if they fail.

`protocol.steps.validate` decides the consequences of verdicts.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.pipeline.steady import validation_targets
from tidegate.ports import Prefetch, StoreTransaction, Validator
from tidegate.protocol.continuous.overlap import (
    find_unwanted,
    has_versions,
    require_no_earlier_savepoint,
    wanted,
)
from tidegate.protocol.facts.errors import CheckpointError, ValidationFailedError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.steps.admission import choose_overdue
from tidegate.protocol.steps.approvals import Approvals, approved_with, with_approvals
from tidegate.protocol.steps.carried_verdicts import carry_over, founded
from tidegate.protocol.steps.hold import decide_hold, held_error, is_held
from tidegate.protocol.steps.snapshot import ended_error, require_same_plan
from tidegate.protocol.steps.validate import (
    ValidatedCheckpoint,
    decide_rejection,
    find_complaints,
    needs_validation,
    permit,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A validation that has begun, with the verdicts that are settled without it."""

    record: CheckpointRecord
    subtasks: Mapping[SubtaskId, SubtaskRecord]
    settled: list[Verdict]
    approvals: Approvals

    def is_overtaken(self, tx: StoreTransaction) -> bool:
        """Whether an older checkpoint with some of these rows has completed since."""
        return has_versions(self.subtasks) and bool(find_unwanted(self.subtasks, tx.latest_completed()))


class _NotAllGoodError(Exception):
    """Raised during an early validation if any verdict is not good."""


class Validation:
    """Validate checkpoints of one pipeline. May be repeated, also by two processes at once."""

    def __init__(self, context: DefinedContext, failures: CheckpointFailureManager) -> None:
        self._context = context
        self._failures = failures
        self._targets = validation_targets(context.graph)

    def validate(self, checkpoint_id: int, validator: Validator) -> ValidatedCheckpoint:
        """Validate the staged rows before any of them is visible. When repeated, the first verdicts stand.

        Raises `ValidationFailedError` after aborting the checkpoint for a verdict that failed, is missing or holds
        an error, and `CheckpointHeldError` while a failed verdict waits for manual approval.
        """
        return self._validate(checkpoint_id, validator, early=False)

    def _validate(self, checkpoint_id: int, validator: Validator, early: bool) -> ValidatedCheckpoint:
        while True:
            begun = self._begin(checkpoint_id)
            if isinstance(begun, ValidatedCheckpoint):
                return begun
            try:
                verdicts_found = validator.validate(begun.record, begun.subtasks, begun.settled)
                given = with_approvals(verdicts_found, begun.approvals, self._context.graph.holds)
                if early and find_complaints(self._context.graph.targets, [*begun.settled, *given]):
                    raise _NotAllGoodError
            except Exception as error:
                if (ended := self._ended_meanwhile(checkpoint_id, error)) is None:
                    raise
                return ended
            verdicts = self._together(begun.settled, founded(self._targets, begun.subtasks, given))
            if (permitted := self._record(begun, verdicts)) is not None:
                return permitted

    def validate_early(self, checkpoint_id: int, validator: Validator) -> bool:
        """Validate in the process that has just taken the snapshot and has its rows. Return whether all verdicts are
        good.

        If any is not good, nothing is recorded. The validate step then validates again, and aborts or holds the
        checkpoint there, where users expect it. Raises as `validate` in all other cases.
        """
        try:
            self._validate(checkpoint_id, validator, early=True)
        except _NotAllGoodError:
            return False
        return True

    def _record(self, begun: "_Begun", verdicts: list[Verdict]) -> ValidatedCheckpoint | None:
        """Return the permit if the verdicts are good; None if some of their rows have become visible meanwhile, so that
        the rest must be validated again. Raises as `validate`."""
        checkpoint_id = begun.record.checkpoint_id
        rejection = decide_rejection(begun.record, self._context.graph.targets, verdicts)
        hold_for = (
            None if rejection is None else decide_hold(self._context.graph.targets, verdicts, self._context.graph.holds)
        )
        with self._context.transaction(Prefetch()) as tx:
            record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            if not needs_validation(record):  # another process was faster, and its verdicts stand
                return permit(record)
            if begun.is_overtaken(tx):
                return None
            if rejection is None:
                return permit(self._accept(tx, record, verdicts))
            tx.record_verdicts(checkpoint_id, verdicts)
            if hold_for is None:
                self._failures.fail_checkpoint(tx, checkpoint_id, FailureReason.VALIDATION_FAILED, rejection)
            else:
                now, message = (
                    self._context.clock.now(),
                    " ".join(find_complaints(self._context.graph.targets, verdicts)),
                )
                tx.hold(checkpoint_id, now + hold_for, message, now)
                record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
        raise ValidationFailedError(rejection, verdicts) if hold_for is None else held_error(record)

    def _begin(self, checkpoint_id: int) -> "ValidatedCheckpoint | _Begun":
        """Return the rows to validate, with the verdicts that are settled already, or the permit of a checkpoint that
        needs no validation. A hold past its deadline aborts its checkpoint."""
        with self._context.transaction(Prefetch()) as tx:
            record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            if not (is_held(record) and choose_overdue([record], self._context.clock.now())):
                if not needs_validation(record):
                    return permit(record)
                require_same_plan(record, self._context.graph.plan)
                require_no_earlier_savepoint(record, tx.in_progress())
                if not self._context.graph.targets:
                    return permit(self._accept(tx, record, []))
                latest = tx.latest_completed()
                subtasks = wanted(tx.subtasks(checkpoint_id), latest)
                before = [] if latest is None else tx.verdicts(latest.checkpoint_id)
                settled = self._settled(subtasks, latest, before)
                if len(settled) < len(self._targets):
                    return _Begun(record, subtasks, settled, approved_with(latest, before))
                return permit(self._accept(tx, record, settled))
            self._failures.expire(tx, record)
            record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
        raise ended_error(record)

    def _settled(
        self, subtasks: Mapping[SubtaskId, SubtaskRecord], latest: CheckpointRecord | None, before: Sequence[Verdict]
    ) -> list[Verdict]:
        """Return the verdicts on the latest completed checkpoint that carry over."""
        if latest is None:
            return []
        settled = carry_over(self._targets, subtasks, before, latest.checkpoint_id)
        for verdict in settled:
            log.info(
                "%s has the files of checkpoint %d, and is not validated again.", verdict.target, verdict.carried_from
            )
        return settled

    def _together(self, settled: Sequence[Verdict], given: Sequence[Verdict]) -> list[Verdict]:
        """Return the verdicts in the order of the targets. A new report also shows the settled ones."""
        report = next((verdict.docs_path for verdict in given if verdict.docs_path is not None), None)
        shown = [verdict if report is None else replace(verdict, docs_path=report) for verdict in settled]
        order = {target: place for place, target in enumerate(self._context.graph.targets)}
        return sorted((*shown, *given), key=lambda verdict: order.get(verdict.target, len(order)))

    def _ended_meanwhile(self, checkpoint_id: int, error: Exception) -> ValidatedCheckpoint | None:
        """Return the permit of a checkpoint that ended during a validation that raised, because its files may be gone.

        Returns None if it still waits for its verdicts. Raises as `needs_validation` does.
        """
        try:
            with self._context.transaction(Prefetch()) as tx:
                record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            return None if needs_validation(record) else permit(record)
        except CheckpointError as ended:
            raise ended from error

    def _accept(self, tx: StoreTransaction, record: CheckpointRecord, verdicts: Sequence[Verdict]) -> CheckpointRecord:
        tx.accept(record.checkpoint_id, verdicts, self._context.clock.now())
        return find_checkpoint(tx, self._context.pipeline_id, record.checkpoint_id)
