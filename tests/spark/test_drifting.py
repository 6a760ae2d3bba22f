"""Files that drift, and a table with derived columns: what the plain computation says, whatever happens in between."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from spark_checkpoints import Checkpoints

from drifting import plain
from drifting.meters import FIRST_NAMES, meters_pipeline, readings_source
from tidegate import Pipeline
from tidegate.protocol.facts.errors import MalformedRowsError

pytestmark = pytest.mark.spark

RENAMED = {"meter_id": ["meter", "meterId"]}
HEADERS = {
    "v1": "meter,at,value",
    "v2": "at,meter_id,value",
    "v3": "meter_id,voltage,at,value",
    "v4": "meterId,at,value,voltage",
}


class Meters:
    """Files as they are delivered, and what has been read of them by which code."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random, self.number = root, Random(seed), 0
        self.landing, self.tables = root / "landing", root / "tables"
        self.landing.mkdir()
        self.voltage, self.aliases = False, FIRST_NAMES
        self.waiting: list[Path] = []
        self.read: list[plain.Read] = []

    def pipeline(self, parallelism: int = 2) -> Pipeline:
        return meters_pipeline(readings_source(self.landing, self.voltage, self.aliases), self.tables, parallelism)

    def deliver(self, kind: str, rows: int = 6) -> None:
        self.number += 1
        path, random = self.landing / f"{kind}_{self.number}.csv", self.random
        lines = [HEADERS[kind]]
        for _ in range(rows):
            value = random.randint(0, 9) if kind == "v1" else random.randint(0, 9) / 2
            row = {
                "at": "2026-01-02T03:04:05",
                "value": random.choice(["", value]),
                "voltage": random.randint(200, 250),
            }
            row |= dict.fromkeys(("meter", "meter_id", "meterId"), random.choice(["", *range(12)]))
            lines.append(",".join(str(row[name]) for name in HEADERS[kind].split(",")))
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, ns=(self.number * 10**9, self.number * 10**9))
        self.waiting.append(path)

    def was_read(self) -> None:
        self.read += [(path, self.voltage) for path in self.waiting]
        self.waiting = []

    def check(self, checkpoints: Any) -> None:
        expected = plain.meters(self.read)
        rows = [(meter, mean, *([volts] if self.voltage else [])) for meter, (mean, volts) in expected.items()]
        assert checkpoints.rows("sink:meters") == sorted(rows, key=repr)


def test_scheduled_through_deaths_other_code_and_a_restore(spark: Any, tmp_path: Path) -> None:
    meters, kept = Meters(tmp_path, seed=1), {}
    checkpoints = Checkpoints(meters.pipeline(), spark, tmp_path)

    def take(die: bool = False) -> None:
        checkpoints.trigger()
        if die:
            with pytest.raises(DiedError):
                attempt_until(checkpoints, number=1, before=checkpoints.checkpoint_id % 2 == 0)
        checkpoints.attempt_once()
        finalize(checkpoints)
        meters.was_read()
        meters.check(checkpoints)
        kept[checkpoints.checkpoint_id] = checkpoints.graph, checkpoints.completed, list(meters.read)

    for kind in ("v1", "v2", "v3"):  # what v3 has more is ignored until the code knows it
        meters.deliver(kind)
        take(die=True)
    meters.voltage = True
    checkpoints = rescaled(checkpoints, meters.pipeline(3))
    take()  # nothing has come, and the table has a column more
    for kind in ("v1", "v2", "v3"):
        meters.deliver(kind)
    take(die=True)
    meters.deliver("v4")
    checkpoints.trigger()
    with pytest.raises(MalformedRowsError, match=r"v4_7\.csv .* it lacks meter_id and has 1 more than the") as refused:
        checkpoints.attempt_once()
    assert "declare it with aliases" in str(refused.value)
    meters.aliases = RENAMED
    checkpoints = rescaled(checkpoints, meters.pipeline(1))
    meters.deliver("v2")
    take(die=True)
    graph, completed, meters.read = kept[2]  # a restore to before the changes
    checkpoints.completed = restored_by(graph, checkpoints.graph, completed)
    meters.waiting = sorted(set(meters.landing.iterdir()) - {path for path, _ in meters.read})
    take()


def test_continuous_through_aborts_kills_and_other_code(spark: Any, tmp_path: Path) -> None:
    meters = Meters(tmp_path, seed=2)
    running = Running(meters.pipeline(), spark, tmp_path)
    for number, kinds in enumerate((("v1", "v2"), ("v3", "v1"), ("v4", "v3", "v1"))):
        if number == 2:
            meters.voltage, meters.aliases = True, RENAMED
            running.change(meters.pipeline())
        for kind in kinds:
            meters.deliver(kind)
            running.until_idle()
        if number == 1:  # what came before its barrier is read again
            running.begin()
            running.until_acknowledged()
            running.abort()
            running.restart()
            running.until_idle()
        running.take()
        meters.was_read()
        meters.check(running)
