"""An operator with sessions, in a simulated continuous run: what it does with the rows of a log, and what must hold.

How rows fall into micro-batches decides which are late, and so which rows a session has. But each row is in one session
or late, once, and what a session's rows are says where it begins and ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from simulator.running_emitting import key_of
from simulator.running_hours import KEYS, Row, time_of
from simulator.scheduler import require
from simulator.sessions import Session, change

#: A session's number in state has a bit for each of its rows: by split, one for each of so many places.
_PLACES = 64  # more than a split has rows


def _bit(row: Row) -> int:
    return 1 << (row[0] * _PLACES + row[1])


def _rows(number: int) -> list[Row]:
    return [divmod(at, _PLACES) for at in range(number.bit_length()) if number >> at & 1]


@dataclass(frozen=True, slots=True)
class LogSessions:
    """Adds up the bits of rows by session; 0 says that it has been emitted, or is part of another one."""

    gap: int
    emits: bool = True

    def own(self, row: Row) -> Session:
        """The session of a row by itself. Its key is in a key group far from that of the next one."""
        return Session(key_of(row) % KEYS * 3, time_of(row), time_of(row) + self.gap)

    def end_of(self, place: int) -> int:
        return Session.at(place).end

    def change(
        self, state: Mapping[int, int], rows: Sequence[Row], gone: int | None
    ) -> tuple[dict[int, int], list[Row]]:
        """What rows change in state, and the late ones."""
        own = [self.own(row) for row in rows]
        changed, late = change(state, own, gone, lambda had, mine: had + sum(_bit(rows[at]) for at in mine))
        return changed, [rows[at] for at in late]

    def check(self, what: str, places: Iterable[tuple[int, int]]) -> list[Row]:
        """Each session, known by its place, begins with its first row, has no gap, and ends with one. Returns all their
        rows."""
        found: list[Row] = []
        for place, number in places:
            session, rows = Session.at(place), sorted(_rows(number), key=time_of)
            own = [self.own(row) for row in rows]
            ends = [max(each.end for each in own[: at + 1]) for at in range(len(own))]
            whole = all(later.begin <= end for end, (_, later) in zip(ends, pairwise(own), strict=False))
            same = {each.key for each in own} == {session.key}
            bounds = (own[0].begin, ends[-1]) if own else None
            require(
                same and whole and bounds == session[1:], f"{what}: {session} has the rows {rows} with a gap {self.gap}"
            )
            found += rows
        return found

    def check_open(self, what: str, state: Mapping[int, int], rows: Iterable[Row], watermark: int | None) -> None:
        """Each row whose own session has not ended is in one that is open, and none that is open has ended."""
        is_open = [(place, number) for place, number in state.items() if number]
        found = self.check(what, is_open)
        ended = [place for place, _ in is_open if watermark is not None and self.end_of(place) <= watermark]
        require(not ended, f"{what}: {[Session.at(place) for place in ended]} are open at {watermark}")
        wanted = {row for row in rows if watermark is None or self.own(row).end > watermark}
        require(
            len(found) == len(set(found)) and wanted <= set(found) <= set(rows),
            f"{what}: open sessions have the rows {sorted(found)}, and should have {sorted(wanted)}",
        )

    def check_shown(
        self,
        shown: Iterable[tuple[int, int]],
        late: Iterable[Row],
        state: Mapping[int, int],
        watermark: int,
        rows: Iterable[Row],
    ) -> None:
        """In the end each row is late, in an open session, or in one that is shown: once."""
        shown, late = list(shown), list(late)
        early = [place for place, _ in shown if self.end_of(place) > watermark]
        require(not early, f"the sessions {[Session.at(place) for place in early]} are shown at {watermark}")
        overdue = [row for row in late if self.own(row).end > watermark]
        require(not overdue, f"the rows {overdue} are late at {watermark}")
        is_open = ((place, number) for place, number in state.items() if number)
        found = [*self.check("shown", shown), *late, *self.check("open", is_open)]
        require(
            sorted(found) == sorted(rows), f"sessions and late rows show {sorted(found)}, and should {sorted(rows)}"
        )
