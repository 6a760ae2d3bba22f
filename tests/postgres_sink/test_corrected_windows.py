"""Windows that have left and are corrected: upserted tables have the last row of each, and no session that has become
part of another one, also after a restore."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from marts import Server
from upserting_marts import UpsertingMarts

from tidegate import Pipeline, PostgresSink, count, session_window, window

pytestmark = pytest.mark.spark

T0, MINUTE = datetime(2026, 1, 1), timedelta(minutes=1)
DELAY, LATENESS, HOUR, GAP = 10, 180, 60, 30
Bounds = tuple[str, int, int]


class CorrectedMarts(UpsertingMarts):
    """Events are minutes by key. `hours` and `visits` are what the tables are to have: counts by key and bounds."""

    SCHEMA = "k string, at timestamp"

    def __init__(self, *servers: Any) -> None:
        self.minutes: list[tuple[str, int]] = []
        self.watermark: int | None = None
        self.hours: dict[Bounds, int] = defaultdict(int)
        self.kept: list[tuple[str, int, int, int]] = []
        self.final: dict[Bounds, int] = {}
        super().__init__(*servers)

    def sinks(self) -> dict[str, PostgresSink]:
        key = ["k", "window_start", "window_end"]
        return {
            "mart": PostgresSink("mart", "upsert", key=key),
            "far": PostgresSink("far", "upsert", key=key, connection="marts"),
        }

    def define(self, pipeline: Pipeline, sinks: Mapping[str, PostgresSink]) -> None:
        events = pipeline.source("events", self.source, event_time="at", delay=f"{DELAY} min")
        windows = {"mart": window("at", f"{HOUR} min"), "far": session_window("at", gap=f"{GAP} min")}
        for name, sink in sinks.items():
            counted = events.key_by("k").aggregate(
                f"in_{name}", windows[name], allowed_lateness=f"{LATENESS} min", v=count()
            )
            counted.sink(name, sink)

    def put(self, **minutes: list[int]) -> None:
        self.minutes = [(k, minute) for k, all_ in minutes.items() for minute in all_]
        self.source.put(0, *((k, str(T0 + minute * MINUTE)) for k, minute in self.minutes))

    def upserted(self) -> dict[str, dict[Bounds, int]]:
        """What the tables have after the minutes that were put last."""
        gone = None if self.watermark is None else self.watermark - LATENESS
        for k, minute in self.minutes:
            start = minute // HOUR * HOUR
            if gone is None or start + HOUR > gone:
                self.hours[k, start, start + HOUR] += 1
        merged = list(self._merged(gone))
        if self.minutes:
            self.watermark = max(max(minute for _, minute in self.minutes) - DELAY, self.watermark or -DELAY)
        self.minutes = []
        assert self.watermark is not None
        shown = {key: n for key, n in self.hours.items() if key[2] <= self.watermark}
        self.final |= {(k, a, b): n for k, a, b, n in merged if b <= self.watermark - LATENESS}
        self.kept = [each for each in merged if each[2] > self.watermark - LATENESS]
        visits = {(k, a, b): n for k, a, b, n in self.kept if b <= self.watermark}
        return {"mart": shown, "far": self.final | visits}

    def _merged(self, gone: int | None) -> Iterator[tuple[str, int, int, int]]:
        """Sessions that touch become one; those without one that is open are late."""
        items = [(*each, True) for each in self.kept]
        items += [(k, at, at + GAP, 1, gone is None or at + GAP > gone) for k, at in self.minutes]
        one: Any = None
        for k, start, end, n, is_open in [*sorted(items, key=lambda each: each[:3]), ("", 0, 0, 0, False)]:
            if one and one[0] == k and start <= one[2]:
                one = (k, one[1], max(one[2], end), one[3] + n, one[4] or is_open)
                continue
            if one and one[4]:
                yield one[:4]
            one = (k, start, end, n, is_open)

    def rows(self, name: str) -> dict[Any, Any]:
        def minute(at: datetime) -> int:
            return (at.astimezone(UTC).replace(tzinfo=None) - T0) // MINUTE

        found = self.servers[name].rows(f"SELECT k, window_start, window_end, v FROM {name}")  # noqa: S608
        return {(k, minute(start), minute(end)): v for k, start, end, v in found}

    def check(self) -> None:
        for name in self.servers:
            assert self.rows(name) == self.state[name], name


def test_a_table_of_upserts_has_the_last_row_of_each_window(
    spark: Any, store: Any, home: Path, here: Server, there: Server
) -> None:
    marts = CorrectedMarts(spark, store, home, here, there)
    marts.take(a=[0, 20, 65, 100], b=[5])
    marts.check()
    marts.take(a=[300, 160], b=[210])
    marts.check()
    seen = marts.rows("far")
    marts.take(a=[130, 150, 190])  # they join two visits, one of which had left
    marts.check()
    assert seen.keys() - marts.rows("far").keys(), "nothing was withdrawn"
    random, now = Random(7), 300
    for _ in range(3):
        now += random.choice([20, 60])
        marts.take(**{k: [now - random.choice([0, 3, 40, 90, 170, 400]) for _ in range(3)] for k in ("a", "b")})
        marts.check()
    marts.reopen(**marts.sinks())
    marts.restore(2)
    marts.check()
    marts.restore()
    marts.check()
    marts.take(a=[now + 400])
    marts.check()
