"""Clicks as they are delivered, out of order, and the tables of the windowed example held against the plain one."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from emitting_shop import shown_in
from listed import Listed

from tidegate import CheckpointConfig, Pipeline
from windowed.clicks import CLICKS, clicks_pipeline
from windowed.plain import Clicks

T0 = datetime(2026, 3, 28, 22)  # an hour before midnight in Berlin, and of a day with 23 hours
PAGES = ["home", "cart", None]


class ClickShop:
    """The pipeline of the example, on clicks that a test delivers; `plain` follows step by step."""

    def __init__(self, root: Path, seed: int, step: int = 100, delay: str = "10 min") -> None:
        self.random = Random(seed)
        self.source = Listed(CLICKS, step=step)
        self.tables = root / "tables"
        self.delay = delay
        self.plain = Clicks(timedelta(minutes=int(delay.split()[0])))
        self.now = T0
        self.delivered: list[tuple[Any, ...]] = []

    def pipeline(self, parallelism: int = 2, checkpoints: CheckpointConfig | None = None, **other: Any) -> Pipeline:
        return clicks_pipeline(self.source, self.tables, parallelism, checkpoints, delay=self.delay, **other)

    def deliver(self, rows: int = 6) -> None:
        """Some minutes or hours later than the last ones, most clicks are recent, and some old; few have no time."""
        random = self.random
        self.now += timedelta(minutes=random.choice([5, 30, 70, 300]))
        new = []
        for _ in range(rows):
            back = timedelta(minutes=random.choice([0, 1, 5, 15, 59, 60, 130, 1500]))
            at = None if random.random() < 0.05 else self.now - back
            new.append((random.choice(PAGES), len(self.delivered) + len(new), at))
        self.put(new)

    def put(self, new: list[tuple[Any, ...]]) -> None:
        self.delivered += new
        self.source.put(0, *((page, visitor, None if at is None else str(at)) for page, visitor, at in new))
        self.plain.step(new)

    def shown(self) -> dict[str, Counter[tuple[Any, ...]]]:
        return {name: shown_in(self.tables / name) for name in self.plain.tables()}

    def check(self) -> None:
        shown = self.shown()
        for name, rows in self.plain.tables().items():
            assert shown[name] == rows, f"{name} misses {rows - shown[name]} and has too many of {shown[name] - rows}"

    def check_counted(self) -> None:
        """Whatever the micro-batches: a click is in one hour, or late, and each window is shown once."""
        shown = self.shown()
        hours = Counter((page, start) for page, start, *_ in shown["hourly"].elements())
        assert not hours or max(hours.values()) == 1, f"shown twice: {hours}"
        for table, late in (("hourly", "late"), ("rushes", "late_rushes")):
            assert sum(row[3] for row in shown[table].elements()) + shown[late].total() == len(self.delivered), table
