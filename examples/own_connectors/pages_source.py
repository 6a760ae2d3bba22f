"""A source of rows that an HTTP API gives page by page, in the order of their ids."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tidegate import RangeSource

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PagesSource(RangeSource):
    """Reads `URL?after=<id>&limit=<rows>`, which answers a JSON array of objects with a growing `id`.

    A row must not change, and none may appear with a smaller id than one that was there.

    Args:
        url: Where the pages are.
        schema: The columns.
        limit: Rows of a page.
    """

    url: str
    schema: str
    limit: int = 1000

    def latest(self, split: int, position: int | None) -> int | None:
        while page := self._page(position):
            position = page[-1]["id"]
        return position

    def read_between(self, split: int, start: int | None, end: int) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        while start != end:
            page = [row for row in self._page(start) if row["id"] <= end]
            yield pa.RecordBatch.from_pylist(page)
            start = page[-1]["id"]

    def describe(self) -> dict[str, Any]:
        return {"type": "PagesSource", "path": self.url}

    def _page(self, after: int | None) -> list[dict[str, Any]]:
        asked = urlencode({"after": -1 if after is None else after, "limit": self.limit})
        with urlopen(f"{self.url}?{asked}", timeout=30) as answer:
            rows: list[dict[str, Any]] = json.load(answer)
            return rows
