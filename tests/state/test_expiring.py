"""State that ends, beside an obvious model: any order of epochs, clocks, merges, rescales and changes of the time to
live."""

import shutil
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_epochs import between_epochs, table_of
from state_operator import Operator

from tidegate.pipeline.aggregates import count, max_
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import (
    UPDATED,
    Moment,
    RecordedTtl,
    TimeToLive,
    count_removed,
    find_horizon,
)
from tidegate.protocol.schema.state_schema import compare_schemas
from tidegate.state.compaction import compact, plan_compaction
from tidegate.state.expiring import decide_expiry, succeeding
from tidegate.state.layout import StateLayout
from tidegate.state.opening import read_layout
from tidegate.state.reading import StateFiles, open_state
from tidegate.state.runs import newest_of
from tidegate.state.subtask import lookup, upsert

pytestmark = pytest.mark.usefixtures("reading")

ROWS = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("n", pa.int64()), ("t", pa.timestamp("us"))]), ["k"])
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
UPSERTED = pa.schema([*ROWS.rows, ("_delete", pa.bool_())])


def by_processing_time(after: int) -> TimeToLive:
    return TimeToLive(UPDATED, after, True)


def by_event_time(after: int) -> TimeToLive:
    return TimeToLive("t", after, False)


class Expiring(Operator):
    """An operator whose rows expire, and whose definition may change. It judges `at` a time."""

    def __init__(self, workshop: Any, ttl: TimeToLive | None, mask: int = -1) -> None:
        super().__init__(workshop, ROWS, mask)
        self.at, self.defined = 0, ROWS.living(ttl)

    def define(self, ttl: TimeToLive | None) -> None:
        self.defined = ROWS.living(ttl)

    def runs(self) -> list[StateHandle]:
        return [run for snapshot in self.snapshots.values() for run in snapshot.handles]

    def has_written_layout(self) -> bool:
        """Merges wait for that: they do not say when a time to live begins."""
        runs = self.runs()
        return bool(runs) and newest_of(runs).details["layout"] == self.layout.fingerprint

    def begin(self, parallelism: int) -> Any:
        specs = super().begin(parallelism)
        runs = [run for spec in specs.values() for run in spec.runs]
        moment = Moment(self.checkpoint, self.at)
        self.layout = self.defined
        if runs and newest_of(runs).details["layout"] != self.defined.fingerprint:
            stored = read_layout(str(self.workshop.storage), "an operator", newest_of(runs))
            change = compare_schemas(stored.schema, self.defined.beginning(self.at).schema, {})
            self.layout = succeeding(stored, self.defined, change.schema, runs, moment)
        self.decided = decide_expiry(self.layout, runs, moment)
        return {id_: self.judging(spec) for id_, spec in specs.items()}

    def judging(self, spec: Any) -> Any:
        return replace(spec, layout=self.layout, at=self.decided.at, horizon=self.decided.horizon)

    def spec(self, subtask: Any, snapshot: Any) -> Any:
        spec = super().spec(subtask, snapshot)
        return self.judging(spec) if hasattr(self, "decided") else spec

    def epoch(self, rows: dict[int, tuple[Any, ...]], parallelism: int) -> dict[int, tuple[Any, ...]]:
        """What a function would see of these keys."""
        specs = self.begin(parallelism)
        parts = self.split(table_of([(key, *row) for key, row in rows.items()], UPSERTED))
        seen: dict[int, tuple[Any, ...]] = {}
        for subtask, part in parts.items():
            seen |= dictionary(lookup(part.to_batches(), specs[subtask]))
        self.finish(specs, {subtask: upsert(part.to_batches(), specs[subtask]) for subtask, part in parts.items()})
        return seen


def dictionary(table: pa.Table) -> dict[int, tuple[Any, ...]]:
    stamps = table.set_column(2, "t", table.column("t").cast(pa.int64()))
    return {row[0]: row[1:] for row in (tuple(each.values()) for each in stamps.to_pylist())}


class Model:
    """A dictionary: by key, value, time of the column, time of the last change."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int | None, int]] = {}
        self.clock = 0
        self.known: int | None = None

    def alive(self, ttl: TimeToLive, at: int) -> dict[int, tuple[int, int | None, int]]:
        clock = max(self.clock, at) if ttl.processing_time else self.known
        times = {key: row[2] if ttl.processing_time else row[1] for key, row in self.rows.items()}
        gone = {key for key, time in times.items() if None not in (time, clock) and time + ttl.after <= clock}
        return {key: row for key, row in self.rows.items() if key not in gone}


times = st.none() | st.integers(0, 60)
rows = st.dictionaries(st.integers(0, 12), st.tuples(st.integers(0, 9), times, st.booleans()), max_size=5)
epochs = st.lists(
    st.fixed_dictionaries({"rows": rows, "at": st.integers(-3, 12), **between_epochs()}), min_size=1, max_size=9
)
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.sampled
@SETTINGS
@given(
    script=epochs,
    ttl=st.builds(by_processing_time, st.integers(1, 30)) | st.builds(by_event_time, st.integers(1, 30)),
    mask=st.sampled_from([-1, 0x2000000000000001]),
)
def test_what_has_expired_is_gone_and_nothing_else(script, ttl, mask, new_workshop) -> None:
    operator, model, now = Expiring(new_workshop(), ttl, mask), Model(), 100
    for epoch in script:
        now += epoch["at"]  # also backwards
        operator.at = now
        alive = model.alive(ttl, now)
        seen = operator.epoch(epoch["rows"], epoch["parallelism"])
        assert seen == {key: row[:2] for key, row in alive.items() if key in epoch["rows"]}
        if writes(epoch["rows"], alive):  # which time it was is known from what was written
            model.rows, model.clock = alive, max(model.clock, now)
        for key, (value, time, deleted) in epoch["rows"].items():
            if deleted:
                model.rows.pop(key, None)
            else:
                model.rows[key] = (value, time, max(model.clock, now))
        shown = {key: row[:2] for key, row in model.alive(ttl, now).items()}
        if not ttl.processing_time and model.known is not None:  # what comes too late has expired already
            late = [key for key, (_, time, _) in epoch["rows"].items() if is_late(time, ttl, model.known)]
            shown = {key: row for key, row in shown.items() if key not in late}
        assert dictionary(operator.scan()) == shown
        assert read(operator) == shown
        brought = [time for _, time, deleted in epoch["rows"].values() if time is not None and not deleted]
        model.known = max([*brought, *([] if model.known is None else [model.known])], default=None)
        if epoch["merge"]:
            operator.merge(epoch["merge"])
        if epoch["lose_cache"]:
            shutil.rmtree(operator.workshop.cache, ignore_errors=True)


def writes(rows: dict[int, tuple[Any, ...]], known: Collection[int]) -> bool:
    """Whether anything is written: of a key that is not there nothing is deleted."""
    return any(not deleted or key in known for key, (_, _, deleted) in rows.items())


def is_late(time: int | None, ttl: TimeToLive, known: int) -> bool:
    return time is not None and time + ttl.after <= known


def read(operator: Expiring) -> dict[int, tuple[Any, ...]]:
    """As `tidegate state` does, which has no definition."""
    state = operator.state()
    if not state.runs:
        return {}
    at = EPOCH + operator.at * MICROSECOND
    files = StateFiles(str(operator.workshop.storage), None, replace(state, triggered_at=at))
    return dictionary(pa.Table.from_batches(open_state(files).batches(), ROWS.rows))


class Changing(Model):
    """By processing time alone, with a definition that counts from the first rows that are written under it."""

    def __init__(self) -> None:
        super().__init__()
        self.ttl: TimeToLive | None = None
        self.times: dict[int, int] = {}
        self.values: dict[int, tuple[int, int | None]] = {}

    def visible(self, defined: TimeToLive | None, at: int) -> dict[int, tuple[int, int | None]]:
        lengths = [each.after for each in (self.ttl, defined if self.ttl else None) if each]
        shortest = min(lengths, default=None)
        if shortest is None:
            return dict(self.values)
        return {key: row for key, row in self.values.items() if self.times[key] + shortest > at}

    def write(self, defined: TimeToLive | None, at: int, changes: dict[int, Any]) -> None:
        """What has expired is gone for good. Times are kept only where rows expire."""
        self.values = self.visible(defined, at)
        begins = self.ttl is None
        self.times = {key: at if begins else self.times[key] for key in self.values}
        self.ttl = defined
        for key, (value, time, deleted) in changes.items():
            self.values.pop(key, None)
            if not deleted:
                self.values[key], self.times[key] = (value, time), at


definitions = st.none() | st.builds(by_processing_time, st.sampled_from([3, 8, 20]))
changing = st.lists(
    st.fixed_dictionaries({"rows": rows, "at": st.integers(0, 6), "defined": definitions, **between_epochs()}),
    min_size=2,
    max_size=9,
)


@pytest.mark.sampled
@SETTINGS
@given(script=changing)
def test_a_time_to_live_may_be_added_altered_and_removed(script, new_workshop) -> None:
    operator, model, now = Expiring(new_workshop(), None), Changing(), 100
    for epoch in script:
        now += epoch["at"]
        operator.at = now
        operator.define(epoch["defined"])
        shown = model.visible(epoch["defined"], now)
        seen = operator.epoch(epoch["rows"], epoch["parallelism"])
        assert seen == {key: row for key, row in shown.items() if key in epoch["rows"]}
        if writes(epoch["rows"], shown):
            model.write(epoch["defined"], now, epoch["rows"])
        assert dictionary(operator.scan()) == model.visible(epoch["defined"], now)
        if (
            epoch["merge"]
            and newest_of(operator.runs() or [StateHandle("", "RUN", 0, 0, "", 0)]).details.get("layout")
            == operator.layout.fingerprint
        ):
            operator.merge(epoch["merge"])


def test_a_merge_that_a_restore_may_use_judges_by_its_own_runs(new_workshop) -> None:
    operator = Expiring(new_workshop(), by_event_time(10))
    operator.epoch({1: (1, 0, False)}, 1)
    operator.epoch({2: (2, 5, False)}, 1)
    restored = dict(operator.snapshots)
    operator.epoch({3: (3, 100, False)}, 1)
    operator.begin(1)
    operator.merge((0, 2))
    assert [compaction.handle.rows for compaction in operator.compactions] == [2]
    operator.snapshots = restored
    assert operator.epoch({1: (1, 6, False), 2: (2, 6, False)}, 1).keys() == {1, 2}


def test_what_is_removed_is_counted_once_also_after_a_rescale(new_workshop) -> None:
    operator = Expiring(new_workshop(), by_processing_time(10))
    operator.epoch({key: (key, None, False) for key in range(20)}, 1)
    operator.at = 10
    operator.epoch({key: (key, None, False) for key in range(5)}, 3)
    assert sum(count_removed(snapshot.handles) for snapshot in operator.snapshots.values()) == 0
    operator.merge((0, 2))
    operator.epoch({0: (0, None, False)}, 3)
    assert len(dictionary(operator.scan())) == 5
    removed = [count_removed(snapshot.handles) for snapshot in operator.snapshots.values()]
    assert (sum(removed), len(removed)) == (15, 3)
    operator.epoch({0: (0, None, False)}, 2)
    assert sum(count_removed(snapshot.handles) for snapshot in operator.snapshots.values()) == 15
    assert sum(run.rows for run in operator.runs()) < 20


def test_runs_whose_rows_have_all_expired_are_merged_as_if_they_were_empty(new_workshop) -> None:
    operator = Expiring(new_workshop(), by_processing_time(10))
    operator.epoch({key: (key, None, False) for key in range(100)}, 1)
    for _ in range(7):
        operator.epoch({0: (0, None, False)}, 1)
    operator.at = 50
    operator.epoch({500: (0, None, False)}, 1)
    specs = operator.begin(1)
    (spec,) = specs.values()
    chosen = plan_compaction(spec)
    assert len(chosen) == len(spec.runs)
    merged = compact(spec, chosen)
    assert (merged.rows, RecordedTtl.of(merged).removed) == (1, 100)


def test_changes_since_a_checkpoint_tell_of_what_has_expired(new_workshop) -> None:
    operator = Expiring(new_workshop(), by_processing_time(10))
    operator.epoch({1: (1, None, False), 2: (2, None, False)}, 2)
    before = stated(operator)
    operator.at = 5
    operator.epoch({2: (2, None, False)}, 2)
    operator.at = 12
    operator.epoch({}, 2)
    files = StateFiles(str(operator.workshop.storage), None, stated(operator), before)
    changes = pa.Table.from_batches(open_state(files).batches()).select(["k", "_change"]).to_pylist()
    assert changes == [{"k": 1, "_change": "delete"}]
    operator.define(None)
    operator.at = 13
    operator.epoch({3: (3, None, False)}, 2)
    files = StateFiles(str(operator.workshop.storage), None, stated(operator), before)
    changes = pa.Table.from_batches(open_state(files).batches()).select(["k", "_change"]).to_pylist()
    assert sorted((row["_change"], row["k"]) for row in changes) == [("delete", 1), ("upsert", 3)]


def stated(operator: Expiring) -> Any:
    return replace(operator.state(), triggered_at=EPOCH + operator.at * MICROSECOND)


def test_by_another_column_what_had_expired_stays_so(new_workshop) -> None:
    operator = Expiring(new_workshop(), by_event_time(10))
    operator.epoch({1: (1, 0, False), 2: (2, 5, False), 3: (3, 12, False)}, 2)
    operator.epoch({4: (4, 12, False)}, 1)
    assert set(dictionary(operator.scan())) == {2, 3, 4}
    operator.define(by_processing_time(100))
    operator.at = 1000
    operator.epoch({5: (5, 0, False)}, 2)
    assert set(dictionary(operator.scan())) == {2, 3, 4, 5}
    operator.at = 1100
    operator.epoch({5: (5, 0, False)}, 3)
    assert set(dictionary(operator.scan())) == {5}


def test_only_times_can_say_when_rows_expire() -> None:
    with pytest.raises(PipelineDefinitionError, match="Rows are to expire by 'n', which is bigint"):
        ROWS.living(TimeToLive("n", 5, False))
    with pytest.raises(PipelineDefinitionError, match="There is no column 'missing'"):
        ROWS.living(TimeToLive("missing", 5, False))
    input_ = pa.schema([("k", pa.int64()), ("t", pa.date32())])
    layout = StateLayout.of_aggregates(input_, ["k"], [("n", count()), ("last", max_("t"))])
    assert layout.living(TimeToLive("last", 5, False)).rows.names == ["k", "n", "last"]
    assert layout.living(by_processing_time(5)).stored.names == ["k", "n", "last", UPDATED]
    assert layout.living(by_processing_time(5)).rows.names == ["k", "n", "last"]


def test_by_event_time_nothing_has_expired_before_anything_is_written() -> None:
    assert find_horizon("t", 5, False, [], Moment(1, 100)) is None
