"""Sessions in keyed state beside an obvious model: lists of rows, put together one after the other. Any order of
epochs, compactions, rescales and lost caches; and keys that share a hash."""

import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_epochs import DECLARED, INPUT, KEYS, MASKS, between_epochs, floats, names, numbers, places, plain, texts
from state_operator import Operator, Workshop, with_hash

from tidegate.pipeline.aggregates import count, sum_
from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.protocol.facts.records import Snapshot, SubtaskId
from tidegate.state import sessions
from tidegate.state.changes import changed_rows, touched_keys
from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles, open_state
from tidegate.state.sessions import take_in_sessions
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, aggregate
from tidegate.state.windows import EndedWindows, Passing

GAP = 5
TIME = pa.timestamp("us", tz="UTC")
BOUNDS = [("window_start", TIME), ("window_end", TIME)]
SCHEMA = pa.schema([*INPUT, *BOUNDS])
ALL_KEYS = [*KEYS, "window_start", "window_end"]
LAYOUT = replace(StateLayout.of_aggregates(SCHEMA, ALL_KEYS, list(DECLARED.items())), sessions=True)
SINGLE = StateLayout.of_aggregates(pa.schema([("n", pa.int64()), *INPUT]), ["n"], list(DECLARED.items()))

rows = st.tuples(names, places, numbers, floats, texts, st.none() | st.integers(0, 60))
epochs = st.lists(
    st.fixed_dictionaries({"rows": st.lists(rows, max_size=20), "passes": st.integers(0, 12), **between_epochs()}),
    min_size=1,
    max_size=6,
)
Row = tuple[Any, ...]


@dataclass
class Model:
    """`open`: by key, sessions as [begin, end, rows]."""

    workshop: Workshop
    open: dict[Row, list[list[Any]]] = field(default_factory=lambda: defaultdict(list))

    def take_in(self, arrived: Iterable[Row], closed: int | None) -> list[Row]:
        """The late rows."""
        late, by_key = [], defaultdict(list)
        for row in arrived:
            if row[5] is None:
                late.append(row)
            else:
                by_key[tuple(map(plain, row[:2]))].append(row)
        for key, new in by_key.items():
            merged: list[list[Any]] = []
            items = [[*each, True] for each in self.open[key]]
            items += [[row[5], row[5] + GAP, [row], closed is None or row[5] + GAP > closed] for row in new]
            for begin, end, members, is_open in sorted(items, key=lambda each: each[:2]):
                if merged and begin <= merged[-1][1]:
                    merged[-1][1] = max(merged[-1][1], end)
                    merged[-1][2] += members
                    merged[-1][3] |= is_open
                else:
                    merged.append([begin, end, list(members), is_open])
            self.open[key] = [each[:3] for each in merged if each[3]]
            late += [row for each in merged if not each[3] for row in each[2]]
        return late

    def end(self, watermark: int) -> dict[Row, Row]:
        found = self.shown(watermark)
        for key, kept in self.open.items():
            self.open[key] = [each for each in kept if each[1] > watermark]
        return found

    def shown(self, until: float = math.inf) -> dict[Row, Row]:
        chosen = [(key, *each) for key, kept in self.open.items() for each in kept if each[1] <= until]
        members = [(n, *row[:5]) for n, (*_, members) in enumerate(chosen) for row in members]
        if not members:
            return {}
        columns = zip(zip(*members, strict=True), [pa.int64(), *INPUT.types], strict=True)
        table = pa.table([pa.array(column, kind) for column, kind in columns], names=["n", *INPUT.names])
        found = aggregate(with_hash(table, ["n"]).to_batches(), self.workshop.spec(SINGLE)).rows.to_pylist()
        values = {row.pop("n"): tuple(map(plain, row.values())) for row in found}
        return {(*key, begin, end): values[n] for n, (key, begin, end, _) in enumerate(chosen)}


def table_of(arrived: list[Row], closed: int | None) -> pa.Table:
    ats = [row[5] for row in arrived]
    columns = [pa.array([row[at] for row in arrived], kind.type) for at, kind in enumerate(INPUT)]
    columns += [pa.array([None if at is None else at + gap for at in ats], TIME) for gap in (0, GAP)]
    columns.append(pa.array([at is not None and (closed is None or at + GAP > closed) for at in ats], pa.bool_()))
    columns.append(pa.array([{"place": place} for place in range(len(ats))], pa.struct([("place", pa.int64())])))
    return pa.table(columns, names=[*SCHEMA.names, sessions.OPEN, sessions.ROW])


def as_dict(tables: Iterable[Any]) -> dict[Row, Row]:
    found = [row for table in tables for row in table.to_pylist()]
    keyed = {
        (*(plain(row[key]) for key in KEYS), *(row[bound].timestamp() * 1e6 for bound, _ in BOUNDS)): tuple(
            plain(value) for name, value in row.items() if name not in ALL_KEYS
        )
        for row in found
    }
    assert len(keyed) == len(found), "a session was returned twice"
    return keyed


def end(operator: Operator, passing: Passing) -> tuple[set[Row], dict[Row, Row]]:
    """What all subtasks withdraw, and what leaves them."""
    gone, found = [], []
    for number, (subtask, snapshot) in enumerate(operator.snapshots.items()):
        spec, wrote = operator.spec(subtask, snapshot), subtask in operator.changed
        changed = snapshot.handles[-1] if wrote and operator.changed[subtask].run.num_rows else None
        ended = EndedWindows(replace(spec, prefix=f"{spec.prefix}-ended-{number}"), passing, changed)
        for batch in ended.rows():
            withdrawn = batch.column("_delete")
            gone.append(batch.drop_columns(["_delete"]).filter(withdrawn))
            found.append(batch.drop_columns(["_delete"]).filter(pc.invert(withdrawn)))
        if ended.written is not None:
            operator.snapshots[subtask] = Snapshot((*snapshot.handles, ended.written))
    operator.changed = {}
    return set(as_dict(gone)), as_dict(found)


def play(script: list[dict[str, Any]], mask: int, workshop: Workshop, lateness: int = 0) -> None:
    """`table` is what a sink has of sessions that have left: their rows, until another one takes their place."""
    operator, model, table, watermark = Operator(workshop, LAYOUT, mask), Model(workshop), dict[Row, Row](), None
    final: dict[Row, Row] = {}
    for epoch in script:
        specs = operator.begin(epoch["parallelism"])
        arrived, gone = epoch["rows"], None if watermark is None else watermark - lateness
        parts = operator.split(table_of(arrived, gone))
        changed = {id_: take_in_sessions(part.to_batches(max_chunksize=3), specs[id_]) for id_, part in parts.items()}
        late = model.take_in(arrived, gone)
        came = [row["place"] for each in changed.values() if each.late for row in each.late.to_pylist()]
        assert sorted(map(repr, (arrived[place] for place in came))) == sorted(map(repr, late))
        assert sum(each.rows_late or 0 for each in changed.values()) == len(late)
        assert sum(each.rows_in for each in changed.values()) == len(arrived)
        before = {id_: replace(spec, runs=spec.runs) for id_, spec in specs.items()}
        operator.finish(specs, changed)
        assert as_dict([operator.scan()]) == model.shown()
        check_changes(operator, before, changed)
        if epoch["passes"] or lateness:
            closed, watermark = watermark, (watermark or 0) + epoch["passes"]
            withdrawn, left = end(operator, Passing(closed, watermark, watermark - lateness, withdraws=True))
            assert withdrawn <= table.keys(), "a session is withdrawn that no sink has"
            assert all(table.get(key) != row for key, row in left.items()), "a session is emitted that has not changed"
            table = {key: row for key, row in table.items() if key not in withdrawn} | left
            now = model.shown(watermark)
            final |= model.end(watermark - lateness)
            assert table == final | now
            assert as_dict([operator.scan()]) == model.shown()
        if epoch["merge"]:
            operator.merge(epoch["merge"], epoch["merged_subtask"])
        if epoch["lose_cache"]:
            shutil.rmtree(operator.workshop.cache, ignore_errors=True)


def check_changes(operator: Operator, before: dict[SubtaskId, SubtaskSpec], changed: dict[SubtaskId, Changed]) -> None:
    """What a reader of the changes sees is what the step says."""
    for subtask, outcome in changed.items():
        old, new = before[subtask], operator.spec(subtask, operator.snapshots[subtask])
        rows_ = [row for keys in touched_keys(old, new) for row in changed_rows(old, new, keys).to_pylist()]
        gone = {tuple(plain(row[name]) for name in ALL_KEYS) for row in rows_ if row["_change"] == "delete"}
        assert gone == {tuple(plain(value) for value in row.values()) for row in outcome.deleted.to_pylist()}
        there = {tuple(plain(row[name]) for name in ALL_KEYS) for row in rows_ if row["_change"] == "upsert"}
        assert there <= {tuple(plain(row[name]) for name in ALL_KEYS) for row in outcome.rows.to_pylist()}


SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.sampled
@pytest.mark.usefixtures("reading")
@SETTINGS
@given(script=epochs, mask=MASKS, lateness=st.sampled_from([0, 4, 30]))
def test_sessions_are_those_of_rows_that_follow_one_another(
    script: Any, mask: int, lateness: int, new_workshop: Any
) -> None:
    play(script, mask, new_workshop(), lateness)


def epoch(*ats: int | None, passes: int = 0, parallelism: int = 2, merge: Any = None) -> dict[str, Any]:
    arrived = [("a", 0.0, number, 1.5, "x", at) for number, at in enumerate(ats)]
    arrived += [("b", 0.0, number, 1.5, "x", at) for number, at in enumerate(ats[:1])]
    return {"rows": arrived, "passes": passes, "parallelism": parallelism, "merge": merge, "merged_subtask": None,
            "lose_cache": True}  # fmt: skip


#: Two sessions, one that touches, a row that bridges both; rows that are late, and one that is in time by another;
#: merges of runs with deleted bounds; a rescale.
LIFE = [
    epoch(0, 20, 30, 10),
    epoch(15, passes=9, merge=(0, 2)),
    epoch(None, 3, 2, parallelism=5),
    epoch(25, merge="planned"),
    epoch(1, 2, 35, 31, 12, passes=40, parallelism=1),
    epoch(3, 45),
    epoch(passes=30, merge=(0, 5)),
    epoch(60),
]


def test_a_life_of_sessions(workshop: Workshop) -> None:
    for mask in (-1, -0x1000000000000000):
        for lateness in (0, 20):
            play(LIFE, mask, workshop, lateness)


def touching_stay_apart(original: Any) -> Any:
    def first(key: Any, begin: Any, end: Any) -> Any:
        return original(key, begin, end - 1)

    return first


def by_the_row_before_alone(original: Any) -> Any:
    def first(key: Any, begin: Any, end: Any) -> Any:
        found = np.ones(len(key), np.bool_)
        found[1:] = (key[1:] != key[:-1]) | (begin[1:] > end[:-1])
        return found

    return first


def as_if_of_one_key(original: Any) -> Any:
    return lambda order, hashes, keys: (np.zeros(1, np.int64), order)


def without_state(original: Any) -> Any:
    return lambda spec, hashes: original(spec, hashes[:0])


def nothing_is_gone(original: Any) -> Any:
    return lambda were, *_: np.zeros(len(were), np.bool_)


def the_first_one(original: Any) -> Any:
    return lambda _, types, columns, groups: [each.take(pa.array(groups.starts)) for each in columns]


def nothing(original: Any) -> Any:
    return lambda self, *_: iter(())


def never(original: Any) -> Any:
    return lambda self, table, had_left: np.zeros(len(had_left), np.bool_)


def always(original: Any) -> Any:
    return lambda self, table, had_left: had_left


MISTAKES: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "sessions that touch stay apart": (sessions, "_first_of_sessions", touching_stay_apart),
    "a session ends when the row before does": (sessions, "_first_of_sessions", by_the_row_before_alone),
    "sessions of other keys are one": (sessions, "key_starts", as_if_of_one_key),
    "open sessions are not looked for": (sessions, "rows_with", without_state),
    "what a session had under its old bounds stays": (sessions, "_are_gone", nothing_is_gone),
    "of sessions that become one, the first one counts": (sessions, "combined", the_first_one),
    "a session that has become part of another one is not withdrawn": (EndedWindows, "_withdrawn", nothing),
    "a session that has changed after it has left does not leave again": (EndedWindows, "_corrected", never),
    "all sessions that have left leave again": (EndedWindows, "_corrected", always),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_noticed(mistake: str, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, make = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    with pytest.raises(AssertionError):
        play(LIFE, -1, workshop, lateness=20)


def spec_of(workshop: Workshop, schema: pa.Schema, key: list[str], **declared: Any) -> SubtaskSpec:
    keys = [*key, "window_start", "window_end"]
    made = StateLayout.of_aggregates(pa.schema([*schema, *BOUNDS]), keys, list(declared.items()))
    return workshop.spec(replace(made, sessions=True))


def test_sessions_without_a_key_and_sums_that_no_longer_fit(workshop: Workshop) -> None:
    spec = spec_of(workshop, pa.schema([("v", pa.int64())]), [], n=count(), total=sum_("v"))

    def step(spec: SubtaskSpec, *rows_: tuple[int, int]) -> Changed:
        columns = [pa.array([42] * len(rows_)), pa.array([v for _, v in rows_])]
        columns += [pa.array([at + gap for at, _ in rows_], TIME) for gap in (0, GAP)]
        columns.append(pa.array([True] * len(rows_)))
        names_ = ["_hash", "v", "window_start", "window_end", sessions.OPEN]
        return take_in_sessions(pa.table(columns, names=names_).to_batches(), spec)

    changed = step(spec, (0, 2**62), (20, 2**62))
    assert [row["n"] for row in changed.rows.to_pylist()] == [1, 1]
    following = workshop.next(spec, changed.write())
    with pytest.raises(CheckpointDeclinedError, match="no longer fits int64 for the key"):
        step(following, *((at, 0) for at in range(4, 20, 4)))
    assert step(following, (25, -1)).rows.to_pylist()[0]["total"] == 2**62 - 1


def test_a_reader_finds_a_session_by_its_key(workshop: Workshop) -> None:
    operator = Operator(workshop, LAYOUT)
    specs = operator.begin(2)
    parts = operator.split(table_of(epoch(0, 20)["rows"], None))
    operator.finish(specs, {id_: take_in_sessions(part.to_batches(), specs[id_]) for id_, part in parts.items()})
    files = StateFiles(str(workshop.storage), str(workshop.cache), operator.state())
    key = {
        "name": "a",
        "place": 0.0,
        "window_start": "1970-01-01 00:00:00.000020",
        "window_end": "1970-01-01 00:00:00.000025",
    }
    assert [row["rows"] for batch in open_state(files, key).batches() for row in batch.to_pylist()] == [1]
    assert sum(batch.num_rows for batch in open_state(files).batches()) == 3
