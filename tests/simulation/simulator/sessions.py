"""Sessions in simulated pipelines: which windows are sessions, and how a session stands in state.

`together` asks the real code which sessions the rows of a step and the open sessions make; `together_plainly` computes
the same in plain Python.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.pipeline.aggregates import count
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.schema.state_schema import BOUNDS
from tidegate.state import sessions as real
from tidegate.state.layout import HASH, StateLayout
from tidegate.state.spec import SubtaskSpec

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the windows that they always drew.
_SALT = 273086
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = pa.schema([("k", pa.int64()), *((name, _TIME) for name in BOUNDS)])
LAYOUT = replace(StateLayout.of_aggregates(_COLUMNS, _COLUMNS.names, [("n", count())]), sessions=True)
_SPEC = SubtaskSpec("", None, "sessions", "simulated", 1, "", KeyGroupRange(0, 0), 1, LAYOUT)

#: A session is a number in state: its begin, its end, its key, and by what it is placed. No other number is so large.
_PLACED, _KEY, _TIMES = 20, 4, 16
SMALLEST = 1 << (_PLACED + _KEY)


def has_sessions(seed: int, name: str) -> bool:
    """Whether the windows of an operator are sessions. Draws of its own, so that the rest stays as it was drawn."""
    drawn = Random(f"sessions {_SALT} {seed}").random() < 0.4
    return drawn and Random(f"sessions {name} {seed}").random() < 0.8


class Session(NamedTuple):
    key: int
    begin: int
    end: int

    @property
    def place(self) -> int:
        """The number by which state knows it. It is placed by the columns by which the real layout places it."""
        number = ((self.begin << _TIMES | self.end) << _KEY | self.key) << _PLACED
        values = dict(zip(_COLUMNS.names, self, strict=True))
        return number | sum(values[column.name] for column in LAYOUT.hashed)

    @classmethod
    def at(cls, place: int) -> "Session":
        number = place >> _PLACED
        times = number >> _KEY
        return cls(number % (1 << _KEY), times >> _TIMES, times % (1 << _TIMES))


def placed_by(place: int) -> int:
    """The part of a session's number that decides which subtask has it."""
    return place % (1 << _PLACED)


@dataclass(frozen=True, slots=True)
class Taken:
    """A session that has new `rows`, and the sessions `before` of which it was made. Those in `gone` are no more."""

    session: Session
    rows: list[int]
    before: list[Session]
    gone: list[Session]


#: Of each row a session of its own, open sessions, and up to where sessions have left: those taken, and the late rows.
Together = Callable[[Sequence[Session], Sequence[Session], int | None], tuple[list[Taken], list[int]]]


def together(own: Sequence[Session], there: Sequence[Session], gone: int | None) -> tuple[list[Taken], list[int]]:
    """As the real code decides."""
    if not own:
        return [], []
    is_open = pa.array([gone is None or session.end > gone for session in own])
    new, stored = _table(own).append_column(real.OPEN, is_open), _table(there)
    found = real._sessions(new, stored, _SPEC)
    rows, numbers = found.members(stored=False)
    before, their = found.members(stored=True)
    bounds = (found.begin[found.taken], found.end[found.taken])
    are_gone = real._are_gone(stored.take(pa.array(before, pa.int64())), their, bounds)
    taken = []
    for number in np.unique(numbers):
        mine = [int(row) for row in rows[numbers == number]]
        session = Session(own[mine[0]].key, *(int(times[number]) for times in bounds))
        were, left = (
            [there[at] for at in before[chosen]] for chosen in (their == number, (their == number) & are_gone)
        )
        taken.append(Taken(session, mine, were, left))
    return taken, [int(row) for row in found.over()]


def _table(sessions: Sequence[Session]) -> pa.Table:
    columns = list(zip(*sessions, strict=True)) or [()] * len(_COLUMNS)
    table = pa.table([pa.array(values, field.type) for values, field in zip(columns, _COLUMNS, strict=True)], _COLUMNS)
    return table.add_column(0, HASH, pa.array([placed_by(session.place) for session in sessions], pa.int64()))


def together_plainly(
    own: Sequence[Session], there: Sequence[Session], gone: int | None
) -> tuple[list[Taken], list[int]]:
    """One after the other, by key and begin."""
    items: list[Any] = [(session, None, True) for session in there]
    items += [(session, row, gone is None or session.end > gone) for row, session in enumerate(own)]
    groups: list[tuple[Session, list[Any]]] = []
    for item in sorted(items, key=lambda item: item[0]):
        if groups and groups[-1][0].key == item[0].key and item[0].begin <= groups[-1][0].end:
            whole, members = groups[-1]
            groups[-1] = (whole._replace(end=max(whole.end, item[0].end)), [*members, item])
        else:
            groups.append((item[0], [item]))
    taken, late = [], []
    for session, members in groups:
        rows = [row for _, row, _ in members if row is not None]
        before = [each for each, row, _ in members if row is None]
        if not any(is_open for _, _, is_open in members):
            late += rows
        elif rows:
            taken.append(Taken(session, rows, before, [each for each in before if each != session]))
    return taken, late


def change(
    state: Mapping[int, int],
    own: Sequence[Session],
    gone: int | None,
    number: Callable[[int, list[int]], int],
    by: Together = together,
) -> tuple[dict[int, int], list[int]]:
    """What a step changes in state: of a session its `number`, made of what its parts had and its rows, and 0 of one
    that is no more. And which rows are late."""
    taken, late = by(own, [Session.at(place) for place in state if state[place]], gone)
    changed = {session.place: 0 for each in taken for session in each.gone}
    for each in taken:
        had = sum(state[session.place] for session in each.before)
        changed[each.session.place] = number(had, each.rows)
    return changed, late
