"""An operator with windows, in a simulated continuous run: what it does with the rows of a log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.running_emitting import key_of

SIZE, STEP, KEYS = 30, 10, 3
Row = tuple[int, int]  # split and place


def time_of(row: Row) -> int:
    return row[1] * STEP


def place_of(row: Row) -> int:
    """The number by which state knows the window of a row."""
    return (time_of(row) // SIZE * SIZE + SIZE) * KEYS + key_of(row) % KEYS


def end_of(place: int) -> int:
    return place // KEYS


@dataclass(frozen=True, slots=True)
class Hours:
    """Counts rows by window; 0 says that nothing corrects it any more. A window that rows change within `lateness` is
    emitted again."""

    lateness: int = 0
    emits: bool = True

    def end_of(self, place: int) -> int:
        return end_of(place)

    def take_in(self, rows: Iterable[Row], gone: int | None) -> tuple[Counter[int], list[Row]]:
        """By place, how many there are; and the late ones."""
        rows = list(rows)
        late = [row for row in rows if gone is not None and end_of(place_of(row)) <= gone]
        return Counter(place_of(row) for row in rows if row not in late), late
