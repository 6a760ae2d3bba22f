"""The checkpoints that a table outside of the checkpoint store has, for a commit that is repeated.

Ids grow, but are not always committed in their order. One restore may leave a checkpoint behind before the sinks are
notified of it, and a later one lead back to it. So the newest id alone does not say which ones a table has.
"""

from dataclasses import dataclass

from tidegate.protocol.facts.branches import Branch

#: The ranges that are kept. The oldest two are joined, as if no checkpoint between them had been committed.
_MOST_RANGES = 500


@dataclass(frozen=True, slots=True)
class Applied:
    """All checkpoints up to the `newest`, without the ranges of ids that were `passed` over. Performs no I/O."""

    newest: int = 0
    passed: tuple[tuple[int, int], ...] = ()

    def has(self, checkpoint_id: int) -> bool:
        return checkpoint_id <= self.newest and not any(a <= checkpoint_id <= b for a, b in self.passed)

    def with_commit(self, checkpoint_id: int) -> "Applied":
        """Return the checkpoints after the commit of one more."""
        before = [*self.passed, (self.newest + 1, checkpoint_id - 1)]
        parts = (part for a, b in before for part in ((a, min(b, checkpoint_id - 1)), (max(a, checkpoint_id + 1), b)))
        return Applied(max(self.newest, checkpoint_id), _joined(sorted({(a, b) for a, b in parts if a <= b})))

    def without(self, checkpoint_id: int) -> "Applied":
        """Return the checkpoints after a restore to one, which does not commit it: it may never have been."""
        if checkpoint_id <= self.newest:
            return self
        return Applied(checkpoint_id, _joined([*self.passed, (self.newest + 1, checkpoint_id)]))

    def newest_in(self, branch: Branch, checkpoint_id: int) -> int:
        """Return the newest checkpoint of a branch before this one; 0 for none."""
        for first, last in branch.spans:
            end = min(self.newest, checkpoint_id - 1, checkpoint_id if last is None else last)
            found = next((id_ for id_ in range(end, first - 1, -1) if self.has(id_)), None)
            if found is not None:
                return found
        return 0


def _joined(passed: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    while len(passed) > _MOST_RANGES:
        passed[:2] = [(passed[0][0], passed[1][1])]
    return tuple(passed)
