"""The first record of a CSV file: the names that it has, and how an error shows them."""

from collections.abc import Sequence

from tidegate.sources.quotes import Rules, fields


def expected_names(found: Sequence[str], expected: Sequence[str]) -> str:
    """Names in a header for an error. What the schema does not have is not shown: the file may be another one, whose
    first line is nobody's business."""
    known = {name.lower() for name in expected}
    return ", ".join(name if name.lower() in known else "?" for name in found)


def header_fields(record: bytes, rules: Rules, strip: bool) -> list[str]:
    """The names in a header."""
    found = [name.decode() for name in fields(record, rules)]
    return [name.strip() for name in found] if strip else found
