"""What one step has read and the next one in the same process need not read again, because it cannot change any more.

The subtasks of a checkpoint never change once all have acknowledged (unless it has staged versions, see
`protocol.continuous.overlap`), its verdicts never once it is validated, and what its `_metadata` says never between
that and its end: restores and new regions abort what is in progress. Whether a checkpoint still is where a step expects
it, who may commit, and everything else that can change is asked in each transaction anew.

What a transaction itself has written may be lost with it, and the process lives on: see `HandedOn.unless_lost`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tidegate.ports import StoreTransaction
from tidegate.protocol.continuous.overlap import find_earlier_savepoint, has_versions
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.recovery.metadata import Metadata

#: How many checkpoints are remembered: the one at work, and the one that it goes on from.
_REMEMBERED = 2
#: Of how many subtasks: those of a wide checkpoint take memory, and are read faster than they are processed.
_MOST_SUBTASKS = 10_000

Subtasks = Mapping[SubtaskId, SubtaskRecord]
Known = TypeVar("Known")


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A checkpoint that has just got its last acknowledgement, and the verdicts on the one that it goes on from."""

    record: CheckpointRecord
    subtasks: Subtasks
    latest: CheckpointRecord | None
    verdicts: Sequence[Verdict]


class HandedOn:
    """Of one pipeline, in one process. Threads may share it: each value is taken or put in one go."""

    def __init__(self) -> None:
        self._last = 0
        self._in_a_row = False
        self._subtasks: dict[int, Subtasks] = {}
        self._verdicts: dict[int, Sequence[Verdict]] = {}
        self._to_judge: dict[int, ToJudge] = {}
        self._metadata: dict[int, Metadata] = {}

    def took(self, checkpoint_id: int) -> None:
        """A step of this checkpoint is taken here. Where each has a process of its own, nothing is read ahead."""
        self._in_a_row = self._in_a_row or checkpoint_id == self._last
        self._last = checkpoint_id

    @contextmanager
    def unless_lost(self, checkpoint_id: int) -> Iterator[None]:
        """Around a transaction that writes what is remembered of a checkpoint in it. If it does not end well, nothing
        of the checkpoint is remembered: it may not have committed, and others may write something else."""
        try:
            yield
        except BaseException:
            for remembered in (self._subtasks, self._verdicts, self._to_judge, self._metadata):
                remembered.pop(checkpoint_id, None)
            raise

    def subtasks(self, tx: StoreTransaction, record: CheckpointRecord) -> Subtasks:
        """All subtasks of a checkpoint, which are remembered if all have acknowledged."""
        id_ = record.checkpoint_id
        settled = record.phase is not Phase.TRIGGERED
        return _known(self._subtasks, id_, lambda: tx.subtasks(id_), lambda each: settled and _lasts(each))

    def verdicts(self, tx: StoreTransaction, record: CheckpointRecord) -> Sequence[Verdict]:
        """The verdicts on a checkpoint, which are remembered once it is validated."""
        id_ = record.checkpoint_id
        settled = record.phase is Phase.VALIDATED or record.status in COMMITTED
        return _known(self._verdicts, id_, lambda: tx.verdicts(id_), lambda _: settled)

    def acknowledged(self, tx: StoreTransaction, record: CheckpointRecord) -> None:
        """All have acknowledged: what it takes to judge the checkpoint is read ahead."""
        if not self._in_a_row or record.num_subtasks > _MOST_SUBTASKS:
            return
        latest, subtasks = tx.latest_completed(), self.subtasks(tx, record)
        if not _lasts(subtasks) or find_earlier_savepoint(record.checkpoint_id, tx.in_progress()):
            return
        verdicts = [] if latest is None else self.verdicts(tx, latest)
        _remember(self._to_judge, record.checkpoint_id, ToJudge(record, subtasks, latest, verdicts))

    def to_judge(self, checkpoint_id: int) -> ToJudge | None:
        """Once: whoever repeats the step looks."""
        return self._to_judge.pop(checkpoint_id, None)

    def validated(self, record: CheckpointRecord, metadata: Callable[[], Metadata]) -> None:
        """What finalize writes down of it is read ahead."""
        if self._in_a_row and record.num_subtasks <= _MOST_SUBTASKS:
            self.keep(metadata())

    def keep(self, metadata: Metadata) -> None:
        _remember(self._metadata, metadata.record.checkpoint_id, metadata)

    def metadata(self, checkpoint_id: int) -> Metadata | None:
        """Of a checkpoint that was validated here. Once, likewise."""
        return self._metadata.pop(checkpoint_id, None)


def _lasts(subtasks: Subtasks) -> bool:
    """Of several versions only one will count, and which it is depends on what completes meanwhile."""
    return len(subtasks) <= _MOST_SUBTASKS and not has_versions(subtasks)


def _known(
    remembered: dict[int, Known], id_: int, read: Callable[[], Known], lasting: Callable[[Known], bool]
) -> Known:
    known = remembered.get(id_)
    if known is None:
        known = read()
        if lasting(known):
            _remember(remembered, id_, known)
    return known


def _remember(remembered: dict[int, Known], id_: int, known: Known) -> None:
    remembered[id_] = known
    for oldest in sorted(remembered)[:-_REMEMBERED]:
        remembered.pop(oldest, None)
