"""Which rows fail a rule, as digests: what a person approves is known again by them."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def failing_rows(found: Mapping[str, Any], most: int) -> tuple[str, ...]:
    """A digest of each row that Great Expectations found to fail: of its key, and of the values that the rule is about.
    Equal rows are counted. For a rule about a whole column or table, one of the value that was observed. Empty if not
    all rows are known: there are more than `most`, or the rule says nothing of rows.
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
        said = repr(sorted(row.items(), key=lambda item: item[0]))
        digests.append(_digest(said, seen[said]))
        seen[said] += 1
    return tuple(sorted(digests))


def _digest(said: Any, which: int) -> str:
    return sha256(repr((said, which)).encode()).hexdigest()[:32]
