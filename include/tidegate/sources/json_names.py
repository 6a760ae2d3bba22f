"""Keys of JSON that differ from a column only by case: Spark would not find them, and the column would be null.

CSV and Parquet do not distinguish case, so JSON must not either. A cheap search finds batches that have such keys; only
their records are read key by key.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(rb'"([^"\\]*)"\s*:')
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[][{}]', re.DOTALL)
_REMEMBERED = 10_000  # harmless keys: those of a map may be new in every record


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of an object by their name in lower case, each with the keys of the objects inside. `inside`: those of
    the values of a map, whose own keys are data."""

    keys: Mapping[str, tuple[str, "Names | None"]]
    inside: "Names | None" = None

    def all(self) -> Iterator[str]:
        for name, below in self.keys.values():
            yield name
            yield from below.all() if below is not None else ()
        yield from self.inside.all() if self.inside is not None else ()


def names_of(type_: Any) -> Names | None:
    """Those of a Spark type; None if there are no objects in it. Names that differ only by case stay as they are."""
    match type_.typeName():
        case "array":
            return names_of(type_.elementType)
        case "map":
            inside = names_of(type_.valueType)
            return None if inside is None else Names({}, inside)
        case "struct":
            low = [name.lower() for name in type_.names]
            fields = [field for field in type_ if low.count(field.name.lower()) == 1]
            return Names({field.name.lower(): (field.name, names_of(field.dataType)) for field in fields})
    return None


class Renaming:
    """Gives keys the case that the schema has."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._exact = {name.encode() for name in names.all()}
        self._lower = {name.lower() for name in names.all()}
        self._harmless: set[bytes] = set()

    def is_needed(self, content: Any) -> bool:
        """Whether bytes with many records may have such a key."""
        unknown = set(_KEY.findall(content)) - self._harmless
        if any(key not in self._exact and key.decode(errors="replace").lower() in self._lower for key in unknown):
            return True
        if len(self._harmless) + len(unknown) > _REMEMBERED:
            self._harmless.clear()
        self._harmless |= unknown
        return False

    def renamed(self, record: str) -> tuple[str | None, str | None]:
        """The record with other keys, None if it needs none; and what is wrong with it."""
        pieces: list[str] = []
        end = 0
        levels: list[tuple[Names | None, dict[str, str]]] = []  # of each object or array: its keys, and those met
        below: Names | None = self._names
        for token in _TOKEN.finditer(record):
            sign = token[0]
            if sign in "{[":
                levels.append((below, {}))
            elif sign in "]}":
                if levels:
                    levels.pop()
                below = levels[-1][0] if levels else None
            elif token[2] is not None and levels:
                names, met = levels[-1]
                name, below = _known(names, token[1])
                if name is None:
                    continue
                if met.setdefault(name, token[1]) != token[1]:
                    return None, f"the keys {met[name]} and {token[1]} are both the column {name}"
                if name != token[1]:
                    pieces += (record[end : token.start(1)], name)
                    end = token.end(1)
        return ("".join((*pieces, record[end:])) if pieces else None), None


def _known(names: Names | None, key: str) -> tuple[str | None, Names | None]:
    if names is None:
        return None, None
    if names.inside is not None:
        return None, names.inside
    return names.keys.get(key.lower(), (None, None))
