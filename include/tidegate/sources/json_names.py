"""Keys of JSON that differ from a column only by case. Spark would not find them, and the column would be null.

CSV and Parquet do not distinguish case, so JSON must not either.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|[][{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of an object by their name in lower case, each with the keys of its inner objects. `inside` has those of
    the values of a map, whose own keys are data."""

    keys: Mapping[str, tuple[str, "Names | None"]]
    inside: "Names | None" = None


def names_of(type_: Any) -> Names | None:
    """Return the names in a Spark type; None if it has no objects. Names that differ only by case stay as they are."""
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


def with_aliases(names: Names | None, aliases: Mapping[str, str]) -> Names | None:
    """Return the names of an object with other keys for them."""
    if names is None or not aliases:
        return names
    others = {other: names.keys[column.lower()] for other, column in aliases.items() if column.lower() in names.keys}
    return Names({**names.keys, **others})


def has_other_case(value: object, names: Names | None) -> bool:
    """Whether a JSON value has a key that is a column in another case, or under another name."""
    if names is None:
        return False
    if type(value) is list:
        return any(has_other_case(each, names) for each in value)
    if type(value) is not dict:
        return False
    if names.inside is not None:
        return any(has_other_case(each, names.inside) for each in value.values())
    for key, inner in value.items():
        name, below = names.keys.get(key.lower(), (key, None))
        if name != key or (below is not None and has_other_case(inner, below)):
            return True
    return False


def renamed(text: str, names: Names) -> tuple[str, str | None]:
    """Return a JSON object with the names of columns as its keys, and its problem, if any."""
    pieces: list[str] = []
    end = 0
    levels: list[tuple[Names | None, dict[str, str]]] = []  # of each object or array: its keys, and those met
    below: Names | None = names
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "{[":
            levels.append((below, {}))
        elif sign in "]}":
            levels.pop()
            below = levels[-1][0] if levels else None
        elif token[2] is not None:
            here, met = levels[-1]
            name, below = _known(here, token[1])
            if name is None:
                continue
            if met.setdefault(name, token[1]) != token[1]:
                return text, f"the keys {met[name]} and {token[1]} are both the column {name}"
            if name != token[1]:
                pieces += (text[end : token.start(1)], name)
                end = token.end(1)
    return "".join((*pieces, text[end:])), None


def _known(names: Names | None, key: str) -> tuple[str | None, Names | None]:
    if names is None:
        return None, None
    if names.inside is not None:
        return None, names.inside
    return names.keys.get(key.lower(), (None, None))
