"""Rolls up the history: subtasks, files and metrics of checkpoints that ended long ago become what they come to.

The cleanup looks whether anything is due, in a transaction that it has open anyway. A portion is then rolled up in a
transaction of its own. If a process dies between two, whoever cleans up next goes on.
"""

from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.cleaning.rollup import MOST_CHECKPOINTS, ROLLUP_INTERVAL, HistoryRule, choose_for_rollup
from tidegate.protocol.facts.clocks import is_over


class HistoryRollup:
    """Of one pipeline; without a rule everything stays on record. Safe to run in several processes at once."""

    def __init__(self, context: PipelineContext, rule: HistoryRule | None) -> None:
        self._context = context
        self._rule = rule
        self._is_due = False
        self._found_nothing_at: datetime | None = None

    def look(self, tx: StoreTransaction) -> None:
        """Whether there is anything to roll up: the oldest says it. A process that has found nothing checks again after
        a while."""
        now, before = self._context.clock.now(), self._found_nothing_at
        self._is_due = False
        if self._rule is None or (before is not None and not is_over(before, ROLLUP_INTERVAL, now)):
            return
        self._is_due = bool(self._choose(tx, 1, self._rule, now))
        self._found_nothing_at = None if self._is_due else now

    def roll_up(self) -> None:
        """Roll up a portion of what is due, if there was anything at the last look."""
        if self._rule is None or not self._is_due:
            return
        with self._context.transaction() as tx:
            if chosen := self._choose(tx, MOST_CHECKPOINTS, self._rule, self._context.clock.now()):
                tx.roll_up(chosen)

    def _choose(self, tx: StoreTransaction, limit: int, rule: HistoryRule, now: datetime) -> list[int]:
        return choose_for_rollup(tx.not_rolled_up(limit), tx.last_checkpoint_id(), rule, now)
