"""Promises of a schema that Tidegate does not keep. Each is refused, because a violation would go unnoticed later.

Keys are compared by their bytes, so a collation would give other keys than in Spark. Readers of files enforce neither
NOT NULL nor the length of CHAR and VARCHAR, and no DEFAULT is filled in. State and tables have no column for VARIANT,
VOID, intervals of months and geographic types. A COMMENT promises nothing, and stays.
"""

import re
from collections.abc import Iterator, Mapping

from tidegate.protocol.schema.ddl import parts_of

_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/|\w+|[^\s\w]", re.DOTALL)
_EXPECT = "let an expectation check it, such as expect("
#: The way out for each keyword.
_MODIFIERS: Mapping[str, str] = {
    "NOT NULL": f'leave NOT NULL out, and {_EXPECT}"column_values_to_not_be_null", column={{column!r}})',
    "DEFAULT": "leave DEFAULT out, and fill nulls in a transform, such as df.fillna(…)",
    "GENERATED": "leave GENERATED out, and compute the column in a transform",
}
_LENGTH = f'declare it STRING, and {_EXPECT}"column_value_lengths_to_be_between", column={{column!r}}, max_value=…)'
_TYPES: Mapping[str, str] = {
    "CHAR": _LENGTH,
    "CHARACTER": _LENGTH,
    "VARCHAR": _LENGTH,
    "VARIANT": "declare it STRING, which keeps the JSON as it is, and take it apart in a transform",
    "VOID": "give it the type that its values will have",
    "GEOMETRY": "declare it BINARY (WKB) or STRING (WKT)",
    "GEOGRAPHY": "declare it BINARY (WKB) or STRING (WKT)",
}
#: The tokens before and behind a type. A struct's field may have the name of a type.
_BEFORE_TYPE = (":", "<", ",")
_AFTER_TYPE = ("", "(", ">", ",", "NOT", "COMMENT")
#: Spark's own name for bytes, by which state and keys compare.
_BYTES = "UTF8_BINARY"


def unkept_promises(ddl: str) -> Iterator[str]:
    """Return a phrase for each promise of a schema (Spark DDL) that is not kept: the column, the promise, and the way
    out.

    Covers arrays, maps and structs. Performs no I/O.
    """
    for part in parts_of(ddl):
        tokens = [token for token in _TOKEN.findall(part) if not token.startswith(("--", "/*"))]
        if not tokens:
            continue
        column = tokens[0][1:-1].replace("``", "`") if tokens[0].startswith("`") else tokens[0]
        for promise, way_out in _promises([token.upper() for token in tokens[1:]]):
            yield f"column {column!r} is declared {promise}: {way_out.format(column=column)}"


def _promises(words: list[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        is_type = (not at or before in _BEFORE_TYPE) and after in _AFTER_TYPE
        if word == "COLLATE" and before == "STRING" and after not in ("", _BYTES):
            yield f"COLLATE {after}", "leave COLLATE out, and bring it to one form in a transform, such as F.lower(…)"
        elif word == "NOT" and after == "NULL":
            yield "NOT NULL", _MODIFIERS["NOT NULL"]
        elif word in _MODIFIERS and at and after != ":":
            yield word, _MODIFIERS[word]
        elif word in _TYPES and is_type:
            yield word if after != "(" else f"{word}({words[at + 2]})", _TYPES[word]
        elif word == "INTERVAL" and (is_type or after in ("YEAR", "MONTH")):
            yield f"{word} {after}".strip(" ,>"), "declare it STRING, or as INTERVAL DAY TO SECOND"
