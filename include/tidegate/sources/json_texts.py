"""The values of a JSON text, which is a line, or with `multiLine` a file.

A text is one value of RFC 8259, several side by side, or an array of them. Anything else makes the whole text
malformed. Spark alone would take the first value and ignore the rest, and would rewrite numbers in STRING columns.
"""

import json
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidegate.sources.json_names import Names, has_other_case, renamed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: The places of some types in a schema: the type itself at its place, a list of one for elements and values of maps,
#: a dictionary by lower-case name for fields. Anything false: nowhere.
Places: TypeAlias = "int | list[Places] | dict[str, Places]"
STRING, DECIMAL, FLOAT, DOUBLE = 1, 2, 3, 4
_EDITED = {"string": STRING, "char": STRING, "varchar": STRING, "decimal": DECIMAL}
_FLOATS = {"float": FLOAT, "double": DOUBLE}
_TOO_LARGE = {FLOAT: 2.0**128 - 2.0**103, DOUBLE: float("inf")}  # from here on, a type rounds to infinity
#: Without a match, no number in a text is too large, whatever its digits and exponent.
_MAY_BE_LARGE = {FLOAT: re.compile(r"[eE]\+?\d\d|\d{29}"), DOUBLE: re.compile(r"[eE]\+?\d{3}|\d{209}")}
_EXACT = 15  # characters of a number that survive a DOUBLE, by which Spark converts a number to its text

NOT_NUMBERS = "allownonnumericnumbers"  # the option that takes NaN and Infinity, which are not JSON

_SHOWN = 1_000  # characters of a malformed file
_ADVICE = "; "
_BLANKS = re.compile(r"[ \t\r\n]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Value(NamedTuple):
    """A value of a text: its start, and the text for Spark to parse if that is not the record itself."""

    start: int
    record: str
    text: str | None = None
    problem: str | None = None


class Floats(NamedTuple):
    """The places of FLOAT or DOUBLE in a schema, and a pattern of text that may be too large for one of them."""

    places: Places
    large: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Syntax:
    """The rules by which a text is read. `whole`: the text is a file. `names`: the keys that are columns. `floats`:
    only if a number that is too large is malformed. `record`: the text is a record of a topic, which may have line ends
    and has no options."""

    places: Places = False
    not_numbers: bool = False
    whole: bool = False
    names: Names | None = None
    floats: Floats | None = None
    record: bool = False


class _NotJson(Exception):
    """The text is not JSON from this character on, or for this reason."""

    def __init__(self, at: int = 0, reason: str | None = None) -> None:
        self.at = at
        self.reason = reason


def places_of(type_: "DataType") -> Places:
    """Return the places of STRING or DECIMAL in a type of Spark."""
    return _places(type_, _EDITED)


def floats_of(type_: "DataType") -> Floats | None:
    """Return the places of FLOAT or DOUBLE in a type of Spark; None if there are none."""
    if not (places := _places(type_, _FLOATS)):
        return None
    return Floats(places, _MAY_BE_LARGE[FLOAT if _places(type_, {"float": FLOAT}) else DOUBLE])


def _places(type_: Any, kinds: Mapping[str, int]) -> Places:
    match type_.typeName():
        case "struct":
            fields = {field.name.lower(): _places(field.dataType, kinds) for field in type_.fields}
            return {name: places for name, places in fields.items() if places}
        case "array":
            return [places] if (places := _places(type_.elementType, kinds)) else 0
        case "map":
            return [places] if (places := _places(type_.valueType, kinds)) else 0
        case kind:
            return kinds.get(kind, 0)


def values(text: str, syntax: Syntax) -> list[Value] | None:
    """Return the values of a text; None if the text itself is one value that Spark reads as it is."""
    try:
        value, end = _decode(text, 0, syntax)
        is_plain = type(value) is dict and not _is_half(text)
        is_plain = is_plain and not has_other_case(value, syntax.names)
        is_plain = is_plain and not _may_be_large(text, syntax)
        if end == len(text) and is_plain and not _has_others(value, syntax.places):
            return None
    except _NotJson:
        pass
    try:
        return [_value(text, start, end, syntax) for start, end in _bounds(text, syntax)]
    except _NotJson as error:
        start = _skip(text, 0)
        return [
            Value(start, text[start : start + _SHOWN] if syntax.whole else text, None, _reason(error, text, syntax))
        ]


def _reason(error: _NotJson, text: str, syntax: Syntax) -> str:
    if error.reason is not None:
        return error.reason.partition(_ADVICE)[0] if syntax.record else error.reason
    if error.at < len(text.rstrip()):
        lines = syntax.whole or (syntax.record and "\n" in text.strip())
        line = f"line {text.count(chr(10), 0, error.at) + 1}, " if lines else ""
        return f"not JSON from {line}character {error.at - text.rfind(chr(10), 0, error.at)} on"
    if syntax.whole:
        return "the file ends inside a JSON value"
    if syntax.record:
        return "the record ends inside a JSON value"
    return 'the line ends inside a JSON value; values over several lines are read with options={"multiLine": "true"}'


def _bounds(text: str, syntax: Syntax) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each value. An outermost array counts as its values."""
    at = _skip(text, 0)
    while at < len(text):
        if text[at] == "[":
            at = yield from _elements(text, _skip(text, at + 1), syntax)
        else:
            _, end = _decode(text, at, syntax)
            yield at, end
            at = end
        at = _skip(text, at)


def _elements(text: str, at: int, syntax: Syntax) -> Generator[tuple[int, int], None, int]:
    """Yield the bounds of the values of an array whose content begins at `at`. Return the end of the array."""
    if text.startswith("]", at):
        return at + 1
    while True:
        _, end = _decode(text, at, syntax)
        yield at, end
        at = _skip(text, end)
        if text.startswith("]", at):
            return at + 1
        if not text.startswith(",", at):
            raise _NotJson(at)
        at = _skip(text, at + 1)


def _value(text: str, start: int, end: int, syntax: Syntax) -> Value:
    record = text[start:end]
    if _is_half(record) and (half := lone_surrogate(record)):
        return Value(start, record, None, f"{half} is half of a character")
    edits: list[tuple[int, int]] = []
    _find_others(record, 0, syntax.places, syntax, edits)
    if syntax.floats is not None and _may_be_large(record, syntax):  # Spark takes no text for one of these
        _find_others(record, 0, syntax.floats.places, syntax, edits)
    edited, last = "", 0
    for begin, until in sorted(edits):
        edited += record[last:begin] + json.dumps(record[begin:until], ensure_ascii=False)
        last = until
    edited, problem = _named(edited + record[last:], syntax)
    return Value(start, record, edited if edited != record else None, problem)


def _named(text: str, syntax: Syntax) -> tuple[str, str | None]:
    """Rename keys that differ from columns in case, and return the problem with them, if any."""
    if syntax.names is None or not has_other_case(_decode(text, 0, syntax)[0], syntax.names):
        return text, None
    return renamed(text, syntax.names)


def _decode(text: str, at: int, syntax: Syntax) -> tuple[Any, int]:
    """Return a value with its end. Numbers are replaced by the lengths of their texts: only the kind of a value
    counts."""
    try:
        return (_LENIENT if syntax.not_numbers else _STRICT).raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _NotJson(len(text) if error.msg.startswith("Unterminated string") else error.pos) from error
    except RecursionError as error:
        raise _NotJson(reason="JSON that is nested too deeply") from error


def _refuse(constant: str) -> None:
    raise _NotJson(
        reason=f'{constant} is not JSON{_ADVICE}it is taken with options={{"allowNonNumericNumbers": "true"}}'
    )


_STRICT = json.JSONDecoder(parse_float=len, parse_int=len, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(parse_float=len, parse_int=len)


def _has_others(value: object, places: Places) -> bool:
    """Whether a STRING has another value than text or null, or a DECIMAL a long number."""
    if not places or value is None:
        return False
    if isinstance(places, int):
        return type(value) is not str if places == STRING else type(value) is int and value > _EXACT
    if type(value) is dict:
        if isinstance(places, list):
            return any(_has_others(each, places[0]) for each in value.values())
        return any(_has_others(each, places.get(name.lower(), False)) for name, each in value.items())
    return type(value) is list and isinstance(places, list) and any(_has_others(each, places[0]) for each in value)


def _find_others(text: str, at: int, places: Places, syntax: Syntax, found: list[tuple[int, int]]) -> int:
    """Collect the bounds of such values, from the value at `at`, and return its end. The text must be JSON."""
    if places and not isinstance(places, int) and text[at] in "{[":
        close = "}" if text[at] == "{" else "]"
        at = _skip(text, at + 1)
        while text[at] != close:
            inner: Places = places[0] if isinstance(places, list) else 0
            if close == "}":
                name, at = _decode(text, at, syntax)
                at = _skip(text, _skip(text, at) + 1)  # behind the colon
                inner = places.get(name.lower(), False) if isinstance(places, dict) else inner
            at = _skip(text, _find_others(text, at, inner, syntax, found))
            at = _skip(text, at + 1) if text[at] == "," else at
        return at + 1
    value, end = _decode(text, at, syntax)
    if isinstance(places, int) and _is_other(text[at:end], value, places):
        found.append((at, end))
    return end


def _is_other(text: str, value: object, place: int) -> bool:
    if place in _TOO_LARGE:
        return type(value) is int and abs(float(text)) >= _TOO_LARGE[place]
    return _has_others(value, place)


def _may_be_large(text: str, syntax: Syntax) -> bool:
    return syntax.floats is not None and syntax.floats.large.search(text) is not None


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _is_half(text: str) -> bool:
    """Whether an escape may be half of a character."""
    return "\\ud" in text or "\\uD" in text


def lone_surrogate(text: str) -> str | None:
    """Return the first escape that is half of a character. Spark would turn it into a question mark."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        code = int(escape[1], 16) if escape[1] else 0
        pairs = high is not None and high.end() == escape.start() and 0xDC00 <= code < 0xE000
        if high is not None and not pairs:
            return high[0]
        if 0xDC00 <= code < 0xE000 and not pairs:
            return escape[0]
        high = escape if 0xD800 <= code < 0xDC00 else None
    return high[0] if high is not None else None
