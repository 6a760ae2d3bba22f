"""Digests of the rows that fail a rule, by which an approved failure is recognised later."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def failing_rows(found: Mapping[str, Any], most: int) -> tuple[str, ...]:
    """Return a digest of each failing row that Great Expectations found: of its key and of the values of the rule.

    Equal rows get different digests. A rule about a whole column or table has one digest, of the observed value. Return
    nothing if not all rows are known: there are more than `most`, or the rule reports no rows.
    """
    count = found.get("unexpected_count")
    if count is None:
        observed = found.get("observed_value")
        return (_digest(observed, 0),) if isinstance(observed, int | float | str) else ()
    rows = found.get("partial_unexpected_index_list") or []
    if not 0 < count <= most or len(rows) != count:
        return ()
    seen: Counter[str] = Counter()
    digests = []
    for row in rows:
        text = repr(sorted(row.items(), key=lambda item: item[0]))
        digests.append(_digest(text, seen[text]))
        seen[text] += 1
    return tuple(sorted(digests))


def _digest(value: Any, which: int) -> str:
    return sha256(repr((value, which)).encode()).hexdigest()[:32]
