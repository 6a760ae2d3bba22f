"""Roll up the history: totals replace the subtasks, files and metrics of checkpoints that ended long ago.

The cleanup reads whether any are due, in a transaction that is open anyway. A batch is then rolled up in its own
transaction. If a process dies between two, the next cleanup continues.
"""

from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.cleaning.rollup import MOST_CHECKPOINTS, ROLLUP_INTERVAL, HistoryRule, choose_for_rollup
from tidegate.protocol.facts.clocks import is_over


class HistoryRollup:
    """The history of one pipeline. Without a rule everything stays on record. Safe to run in several
    processes at once."""

    def __init__(self, context: PipelineContext, rule: HistoryRule | None) -> None:
        self._context = context
        self._rule = rule
        self._is_due = False
        self._found_nothing_at: datetime | None = None

    def check(self, tx: StoreTransaction) -> None:
        """Read whether the oldest checkpoint is due. A process that has found none reads again after a while."""
        now, before = self._context.clock.now(), self._found_nothing_at
        self._is_due = False
        if self._rule is None or (before is not None and not is_over(before, ROLLUP_INTERVAL, now)):
            return
        self._is_due = bool(self._choose(tx, 1, self._rule, now))
        self._found_nothing_at = None if self._is_due else now

    def roll_up(self) -> None:
        """Roll up a batch of the checkpoints that are due, if `look` has found any."""
        if self._rule is None or not self._is_due:
            return
        with self._context.transaction() as tx:
            if chosen := self._choose(tx, MOST_CHECKPOINTS, self._rule, self._context.clock.now()):
                tx.roll_up(chosen)

    def _choose(self, tx: StoreTransaction, limit: int, rule: HistoryRule, now: datetime) -> list[int]:
        return choose_for_rollup(tx.not_rolled_up(limit), tx.last_checkpoint_id(), rule, now)
