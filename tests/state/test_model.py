"""Keyed state beside an obvious model: a dictionary. Any order of epochs, compactions, rescales and lost caches."""

import math
import shutil
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.pipeline.aggregates import avg, count, max_, max_by, min_, min_by, sum_
from tidegate.protocol.keygroups import key_group_of, key_groups_of, subtask_of
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.records import CheckpointRecord, CompactedRun, OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.restore import restore_snapshots
from tidegate.state.compaction import compact, plan_compaction
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import Changed, SubtaskSpec, aggregate, lookup, scan, upsert

GROUPS = 16
OPERATOR = "operator"
KEYS = ["name", "place"]
KEY_SCHEMA = [("name", pa.string()), ("place", pa.float64())]
ROWS = StateLayout.of_rows(pa.schema([*KEY_SCHEMA, ("number", pa.int32()), ("text", pa.string())]), KEYS)
INPUT = pa.schema([*KEY_SCHEMA, ("v", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
DECLARED = {
    "rows": count(), "texts": count("s"), "total": sum_("v"), "mean": avg("v"), "least": min_("f"), "most": max_("f"),
    "last": max_("s"), "first_text": min_by("s", "v"), "last_text": max_by("s", "f"),
}  # fmt: skip
AGGREGATES = StateLayout.of_aggregates(INPUT, KEYS, list(DECLARED.items()))
# Few hashes for many keys, so that collisions are the rule; -1 leaves hashes as they are.
MASKS = st.sampled_from([-1, -0x1000000000000000, 0x2000000000000001])

names = st.none() | st.sampled_from(["", "a", "b", "JFK", "ünïcode"])
places = st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf])
numbers = st.none() | st.integers(-5, 5)
floats = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf])
texts = st.none() | st.sampled_from(["", "x", "y", "z"])
input_rows = st.lists(st.tuples(names, places, numbers, floats, texts), max_size=25)
state_rows = st.lists(st.tuples(names, places, numbers, texts, st.none() | st.booleans()), max_size=12)


def between_epochs() -> Any:
    return {
        "parallelism": st.integers(1, 8),
        "merge": st.none() | st.just("planned") | st.tuples(st.integers(0, 4), st.integers(1, 4)),
        "lose_cache": st.booleans(),
    }


def epochs(rows: Any) -> Any:
    return st.lists(st.fixed_dictionaries({"rows": rows, **between_epochs()}), min_size=1, max_size=6)


def plain(value: Any) -> Any:
    """Values as a dictionary should compare them: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def key_of(row: Any) -> tuple[Any, ...]:
    return tuple(plain(value) for value in row[:2])


def as_dict(table: pa.Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = [tuple(plain(value) for value in row.values()) for row in table.to_pylist()]
    assert len({row[:2] for row in rows}) == len(rows), "a key was returned twice"
    return {row[:2]: row[2:] for row in rows}


pytestmark = pytest.mark.usefixtures("reading")


class Operator:
    """Plays the coordinator for one keyed operator: snapshots, compactions and the real restore rules."""

    def __init__(self, workshop: Any, layout: StateLayout, hashed: Any, mask: int) -> None:
        self.workshop, self.layout, self.hashed, self.mask = workshop, layout, hashed, mask
        self.checkpoint = 0
        self.parallelism = 1
        self.snapshots: dict[SubtaskId, Snapshot] = {}
        self.compactions: list[CompactedRun] = []

    def begin(self, parallelism: int) -> dict[SubtaskId, SubtaskSpec]:
        """The specs of the next checkpoint, restored from the one before at another parallelism."""
        latest = record(self.checkpoint, self.parallelism) if self.checkpoint else None
        plan = OperatorPlan(OPERATOR, parallelism, GROUPS)
        restored = restore_snapshots(latest, self.snapshots, [plan], self.compactions, False)
        self.checkpoint, self.parallelism, self.compactions = self.checkpoint + 1, parallelism, []
        ids = [SubtaskId(OPERATOR, index) for index in range(parallelism)]
        return {subtask: self.spec(subtask, restored.get(subtask, Snapshot())) for subtask in ids}

    def spec(self, subtask: SubtaskId, snapshot: Snapshot) -> SubtaskSpec:
        groups = key_groups_of(subtask.subtask_index, self.parallelism, GROUPS)
        spec = self.workshop.spec(self.layout, snapshot.handles, groups, checkpoint_id=self.checkpoint)
        return replace(spec, max_parallelism=GROUPS)

    def split(self, table: pa.Table) -> dict[SubtaskId, pa.Table]:
        """Rows by the subtask that owns their key."""
        table = self.hashed(table, KEYS, self.mask)
        rows = defaultdict(list)
        for at, value in enumerate(table.column("_hash").to_pylist()):
            group = key_group_of(value & (2**64 - 1), GROUPS)
            rows[SubtaskId(OPERATOR, subtask_of(group, self.parallelism, GROUPS))].append(at)
        return {subtask: table.take(pa.array(places)) for subtask, places in rows.items()}

    def finish(self, specs: dict[SubtaskId, SubtaskSpec], changed: dict[SubtaskId, Changed]) -> None:
        self.snapshots = {}
        for subtask, spec in specs.items():
            handle = changed[subtask].handle if subtask in changed else None
            self.snapshots[subtask] = Snapshot((*spec.runs, *([handle] if handle else [])))

    def merge(self, which: Any) -> None:
        """Compact every subtask's runs: those planned, or any neighbours."""
        for subtask, snapshot in self.snapshots.items():
            spec = self.spec(subtask, snapshot)
            chosen = plan_compaction(spec) if which == "planned" else spec.runs[which[0] : which[0] + which[1]]
            if chosen:
                views = tuple(handle.view for handle in chosen)
                self.compactions.append(CompactedRun(subtask, compact(spec, chosen), views))

    def read(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Everything, by the subtasks of the latest checkpoint."""
        batches = []
        for subtask, snapshot in self.snapshots.items():
            batches += scan(self.spec(subtask, snapshot))
        return as_dict(pa.Table.from_batches(batches, self.layout.rows))


def record(checkpoint_id: int, parallelism: int) -> CheckpointRecord:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    plans = (OperatorPlan(OPERATOR, parallelism, GROUPS),)
    return CheckpointRecord(
        "flight_delays", checkpoint_id, "r", False, Status.COMPLETED, Phase.VALIDATED, now, now, parallelism,
        operators=plans,
    )  # fmt: skip


def finish_epoch(operator: Operator, epoch: dict[str, Any], expected: dict[Any, Any]) -> None:
    assert operator.read() == expected
    if epoch["merge"]:
        operator.merge(epoch["merge"])
    if epoch["lose_cache"]:
        shutil.rmtree(operator.workshop.cache, ignore_errors=True)


SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(script=epochs(state_rows), mask=MASKS)
def test_upserts_and_deletes_leave_what_a_dictionary_would(script, mask, new_workshop, hashed) -> None:
    operator = Operator(new_workshop(), ROWS, hashed, mask)
    model: dict[Any, Any] = {}
    for epoch in script:
        specs = operator.begin(epoch["parallelism"])
        rows = {key_of(row): row for row in epoch["rows"]}
        schema = pa.schema([*ROWS.rows, ("_delete", pa.bool_())])
        columns = list(zip(*rows.values(), strict=True)) or [[]] * 5
        parts = operator.split(pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
        current = {}
        for subtask, part in parts.items():
            current |= as_dict(lookup(part.to_batches() * 2, specs[subtask]))
        assert current == {key: model[key] for key in rows if key in model}
        changed = {subtask: upsert(part.to_batches(), specs[subtask]) for subtask, part in parts.items()}
        shown, deleted = {}, set()
        for outcome in changed.values():
            shown |= as_dict(outcome.rows)
            deleted |= set(as_dict(outcome.deleted))
        assert deleted == {key for key, row in rows.items() if row[4] and key in model}
        assert shown == {key: tuple(map(plain, row[2:4])) for key, row in rows.items() if not row[4]}
        model = {key: value for key, value in (model | shown).items() if key not in deleted}
        operator.finish(specs, changed)
        finish_epoch(operator, epoch, model)


@SETTINGS
@given(script=epochs(input_rows), mask=MASKS)
def test_declared_aggregates_equal_those_of_all_rows_together(script, mask, new_workshop, hashed) -> None:
    operator = Operator(new_workshop(), AGGREGATES, hashed, mask)
    seen: dict[Any, list[Any]] = defaultdict(list)
    for epoch in script:
        specs = operator.begin(epoch["parallelism"])
        columns = list(zip(*epoch["rows"], strict=True)) or [[]] * 5
        parts = operator.split(pa.table([pa.array(c, f.type) for c, f in zip(columns, INPUT, strict=True)], INPUT))
        for row in epoch["rows"]:
            seen[key_of(row)].append(dict(zip("vfs", row[2:], strict=True)))
        changed = {
            subtask: aggregate(part.to_batches(max_chunksize=3), specs[subtask]) for subtask, part in parts.items()
        }
        shown: dict[Any, Any] = {}
        for outcome in changed.values():
            shown |= as_dict(outcome.rows)
        expected = {key: expected_of(rows) for key, rows in seen.items()}
        assert shown == {key: expected[key] for key in map(key_of, epoch["rows"])}
        assert sum(outcome.rows_in for outcome in changed.values()) == len(epoch["rows"])
        operator.finish(specs, changed)
        finish_epoch(operator, epoch, expected)


def expected_of(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The aggregates of a key's rows by Spark's rules, written for the eye."""
    numbers = [row["v"] for row in rows if row["v"] is not None]
    floats = [row["f"] for row in rows if row["f"] is not None]
    texts = [row["s"] for row in rows if row["s"] is not None]
    answers = (
        len(rows),
        len(texts),
        sum(numbers) if numbers else None,
        sum(numbers) / len(numbers) if numbers else None,
        min(floats, key=above_all_nan, default=None),
        max(floats, key=above_all_nan, default=None),
        max(texts, default=None),
        extreme(rows, "v", min),
        extreme(rows, "f", max),
    )
    return tuple(plain(answer) for answer in answers)


def above_all_nan(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


def extreme(rows: list[dict[str, Any]], by: str, choose: Any) -> Any:
    orders = [above_all_nan(float(row[by])) for row in rows if row[by] is not None]
    if not orders:
        return None
    best = choose(orders)
    tied = [row["s"] for row in rows if row[by] is not None and above_all_nan(float(row[by])) == best]
    return None if None in tied else min(tied)
