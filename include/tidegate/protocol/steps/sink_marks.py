"""The record of how much of its operator's state a sink of upserts has: a mark in the position of each subtask.

With a mark, the sink has the same rows of its subtask as that checkpoint, without expired rows. The mark counts only if
the table is known to have that checkpoint. A restore may have left the table unchanged, or the table is another one,
such as in a database that the checkpoint was not taken in. Otherwise the sink is given the whole state once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.protocol.facts.records import Snapshot, StateHandle, SubtaskId

#: The key of the mark in the position of a sink's subtask.
MARK = "upserted"
#: Details of staged files: the rows are deleted keys; the sink's files of the checkpoint hold all rows.
DELETES, WHOLE = "deletes", "whole"


@dataclass(frozen=True, slots=True)
class SinkMark:
    """The mark of one subtask. `sink` identifies the sink and its place. `layout` is the fingerprint of its rows'
    columns; None if it was given no rows. Rows up to the `horizon` had expired."""

    sink: str
    operator_id: str
    parallelism: int
    layout: str | None = None
    horizon: int | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "SinkMark | None":
        """Read the mark from a snapshot of the sink."""
        recorded = ((snapshot.position if snapshot else None) or {}).get(MARK)
        return None if recorded is None else cls(**recorded)

    def position(self) -> dict[str, Any]:
        """Return the position that holds the mark in a snapshot."""
        return {MARK: asdict(self)}

    def is_of(self, sink: str, operator_id: str, parallelism: int) -> bool:
        return (self.sink, self.operator_id, self.parallelism) == (sink, operator_id, parallelism)


def is_whole(staged: Sequence[StateHandle]) -> bool:
    """Whether staged rows are all rows of the state. Performs no I/O."""
    return any(WHOLE in handle.details for handle in staged)


def gone_first(staged: Sequence[StateHandle]) -> list[StateHandle]:
    """Sort files of deleted keys in front of the others, because they have one more column. Performs no I/O."""
    return sorted(staged, key=lambda handle: DELETES not in handle.details)


def is_mark_alone(position: Mapping[str, Any]) -> bool:
    """Whether the position holds nothing but a mark, so that nothing is lost with a sink that the definition no longer
    has. Performs no I/O."""
    return position.keys() == {MARK}


def known_marks(
    snapshots: Mapping[SubtaskId, Snapshot], latest_id: int, shown: Mapping[str, int | None], is_restored: bool
) -> dict[SubtaskId, Snapshot]:
    """Return the snapshots of the latest checkpoint, without the marks of tables that may not have it. `shown` is the
    checkpoint of each table whose sink can report it, by operator id. The other marks are trusted, unless a restore has
    led to this checkpoint: the sink may not have been part of the pipeline then. Performs no I/O."""

    def is_known(operator_id: str) -> bool:
        return shown[operator_id] == latest_id if operator_id in shown else not is_restored

    return {id_: each if is_known(id_.operator_id) else without_mark(each) for id_, each in snapshots.items()}


def without_mark(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without its mark, for a sink that may lack rows. Performs no I/O."""
    if not snapshot.position or MARK not in snapshot.position:
        return snapshot
    rest = {name: value for name, value in snapshot.position.items() if name != MARK}
    return replace(snapshot, position=rest or None)
