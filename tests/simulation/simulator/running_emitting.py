"""An operator that emits, in a simulated continuous run: it numbers the rows of each key.

Whatever the micro-batches, each number is emitted once, unless somebody loses a row, doubles one, or parts the state
from what was emitted with it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

KEYS = 7
EMITTED_TO = "numbers_shown"  # the table of what is emitted
Row = tuple[int, int]


def key_of(row: Row) -> int:
    return (row[0] * 31 + row[1]) % KEYS


@dataclass(frozen=True, slots=True)
class Numbers:
    """Every third row is passed on as it is, with a key of its own, and changes no state."""

    def merge(self, before: int | None, value: int) -> int:
        return (before or 0) + value

    def is_counted(self, row: Row) -> bool:
        return row[1] % 3 != 0

    def counted(self, rows: Iterable[Row]) -> list[int]:
        """The keys of those that change state."""
        return [key_of(row) for row in rows if self.is_counted(row)]

    def emit(self, state: dict[int, int], rows: Iterable[Row]) -> list[Row]:
        """What leaves for these rows of a log, `state` being what is known before them."""
        numbers, emitted = Counter(state), []
        for row in rows:
            if self.is_counted(row):
                numbers[key_of(row)] += 1
                emitted.append((key_of(row), numbers[key_of(row)]))
            else:
                emitted.append((KEYS * (1 + row[0]), row[1]))
        return emitted


def counted_again(emitted: Iterable[Row]) -> list[Row]:
    """Emitted rows as an operator behind reads them: its key, and a value to add."""
    return [(key % KEYS, 1) for key, _ in emitted]
