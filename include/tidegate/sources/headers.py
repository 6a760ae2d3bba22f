"""The first record of a CSV file: the names that it has, and how an error shows them."""

import csv
from collections.abc import Sequence

from tidegate.sources.text_records import Rules


def expected_names(found: Sequence[str], expected: Sequence[str]) -> str:
    """Names in a header for an error. What the schema does not have is not shown: the file may be another one, whose
    first line is nobody's business."""
    known = {name.lower() for name in expected}
    return ", ".join(name if name.lower() in known else "?" for name in found)


def header_fields(record: str, rules: Rules, strip: bool) -> list[str]:
    """The names in a header."""
    separator = rules.separator.decode()
    if len(separator) > 1:
        found = record.split(separator)
    else:
        quoting = {"quotechar": rules.quote.decode()} if rules.quote else {"quoting": csv.QUOTE_NONE}
        escaping = {"escapechar": rules.escape.decode()} if rules.quote and rules.escape and not rules.doubles else {}
        try:
            found = next(csv.reader([record], delimiter=separator, **quoting, **escaping), [])  # type: ignore[arg-type]
        except csv.Error:
            found = [record]
    return [name.strip() for name in found] if strip else found
