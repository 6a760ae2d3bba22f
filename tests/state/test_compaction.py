"""Which runs are merged, how often a row is rewritten, and that a merge changes nothing anyone can see."""

from dataclasses import replace

import pyarrow as pa
from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.state import slices
from tidegate.state.compaction import MAX_RUNS, MIN_RUNS, choose_runs, compact, plan_compaction
from tidegate.state.layout import StateLayout
from tidegate.state.opening import open_run
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"])


@given(st.lists(st.integers(0, 10**9), max_size=40))
def test_at_most_a_bounded_number_of_runs_is_left_after_a_few_merges(rows: list[int]) -> None:
    merges = 0
    while chosen := choose_runs(rows):
        assert len(chosen) >= 2
        rows = [*rows[: chosen.start], sum(rows[chosen.start : chosen.stop]), *rows[chosen.stop :]]
        merges += 1
        assert merges < 40
    assert len(rows) <= MAX_RUNS


@for_each(("keys", "changes"), [(10**6, 10**4), (10**6, 10**5), (10**5, 10**5)])
def test_rows_are_rewritten_seldom_and_lookups_visit_few_runs(keys: int, changes: int) -> None:
    rows, written, most = [keys], 0, 0
    for _ in range(500):
        rows.append(changes)
        if chosen := choose_runs(rows):
            merged = min(keys, sum(rows[chosen.start : chosen.stop]))
            rows = [*rows[: chosen.start], merged, *rows[chosen.stop :]]
            written += merged
        most = max(most, len(rows))
    assert most <= MAX_RUNS
    assert written / (500 * changes) < 3.5


def test_nothing_is_merged_while_there_is_little() -> None:
    assert choose_runs([]) is None
    assert choose_runs([10]) is None
    assert choose_runs([1000, 10, 10, 10]) is None
    assert choose_runs([1000, *[10] * MIN_RUNS]) == range(1, 1 + MIN_RUNS)


def epochs(workshop, hashed, number: int, rows: int, groups=None):
    """Runs that each replace a third of the keys, delete some of the others, and the spec that reads them."""
    spec = workshop.spec(LAYOUT, key_groups=groups)
    for epoch in range(number):
        keys = [key for key in range(rows) if epoch == 0 or key % 3 == epoch % 3]
        deleted = [epoch > 0 and key % 5 == epoch % 5 for key in keys]
        table = pa.table({"k": keys, "v": [f"{epoch}" for _ in keys], "_delete": deleted})
        spec = workshop.next(spec, upsert(hashed(table, ["k"]).to_batches(), spec).write())
    return spec


def rows_of(hashed, keys: list[int]) -> list[pa.RecordBatch]:
    return hashed(pa.table({"k": keys, "v": ["again" for _ in keys]}), ["k"]).to_batches()


def content(spec) -> dict[int, str]:
    table = pa.Table.from_batches(scan(spec), LAYOUT.rows)
    assert len(set(table.column("k").to_pylist())) == table.num_rows
    return dict(zip(table.column("k").to_pylist(), table.column("v").to_pylist(), strict=True))


def test_merging_any_neighbours_changes_nothing_visible_whatever_the_slice(workshop, hashed, monkeypatch) -> None:
    spec = epochs(workshop, hashed, 6, 400)
    before = content(spec)
    monkeypatch.setattr(slices, "_SLICE_ROWS", 64)
    assert content(spec) == before
    for first, last in [(0, 6), (0, 2), (1, 4), (4, 6)]:
        merged = compact(replace(spec, prefix=f"merged/{first}-{last}"), spec.runs[first:last])
        runs = (*spec.runs[:first], merged, *spec.runs[last:])
        assert content(replace(spec, runs=runs)) == before
    first = compact(replace(spec, prefix="merged/first"), spec.runs[:2])
    runs = (first, *spec.runs[2:])
    again = compact(replace(spec, prefix="merged/again", runs=runs), runs[:2])
    assert content(replace(spec, runs=(again, *runs[2:]))) == before


def test_runs_that_end_at_different_hashes_are_merged_as_one_piece(workshop, hashed) -> None:
    """A lookup goes through the pieces of a run one by one."""
    spec = epochs(workshop, hashed, 6, 400)
    assert len({run.details["max_hash"] for run in spec.runs}) > 1
    merged = compact(replace(spec, prefix="merged/all"), spec.runs)
    assert len(open_run(spec, merged)) == 1
    again = workshop.next(replace(spec, runs=(merged,)), upsert(rows_of(hashed, [1]), spec).write())
    assert len(list(scan(again))) == 1


def test_a_slice_takes_no_more_of_a_run_than_it_may_whatever_pieces_the_run_is_in(
    workshop, hashed, monkeypatch
) -> None:
    spec = epochs(workshop, hashed, 3, 400)
    monkeypatch.setattr(slices, "_SLICE_ROWS", 30)
    pieces = compact(replace(spec, prefix="merged/pieces"), spec.runs)
    assert len(open_run(spec, pieces)) > 5
    spec = replace(spec, runs=(pieces,))
    before = content(spec)
    monkeypatch.setattr(slices, "_SLICE_ROWS", 100)
    batches = list(scan(spec))
    assert [batch.num_rows for batch in batches[:-1]] == [100] * (pieces.rows // 100)
    assert content(spec) == before


def test_a_slice_takes_no_more_bytes_of_a_run_than_it_may_however_wide_the_rows_are(
    workshop, hashed, monkeypatch
) -> None:
    """State of large rows has few of them in a piece."""
    spec = epochs(workshop, hashed, 3, 400)
    wide = pa.table({"k": range(400), "v": ["x" * 1000] * 400})
    spec = workshop.next(spec, upsert(hashed(wide, ["k"]).to_batches(), spec).write())
    monkeypatch.setattr(slices, "_SLICE_BYTES", 50_000)
    assert max(batch.num_rows for batch in scan(spec)) <= 50
    assert set(content(spec).values()) == {"x" * 1000}
    pieces = compact(replace(spec, prefix="merged/wide"), spec.runs)
    assert max(len(part.hashes) for part in open_run(spec, pieces)) <= 50
    monkeypatch.setattr(slices, "_SLICE_BYTES", 100_000)
    assert max(batch.num_rows for batch in scan(replace(spec, runs=(pieces,)))) in range(51, 101)


def test_tombstones_go_only_when_nothing_older_is_left_that_they_hide(workshop, hashed) -> None:
    spec = epochs(workshop, hashed, 4, 300)
    whole = compact(replace(spec, prefix="merged/whole"), spec.runs)
    assert whole.rows == len(content(spec))
    assert whole.details["tombstones"] is False
    later = compact(replace(spec, prefix="merged/later"), spec.runs[1:])
    assert later.details["tombstones"] is True
    assert content(replace(spec, runs=(spec.runs[0], later))) == content(spec)


def test_the_plan_counts_only_the_subtasks_part_of_a_shared_run(workshop, hashed) -> None:
    spec = epochs(workshop, hashed, 1, 3000)
    each = 1200 // (MIN_RUNS - 1)
    for _ in range(MIN_RUNS - 1):
        table = hashed(pa.table({"k": range(each), "v": ["new"] * each}), ["k"])
        spec = workshop.next(spec, upsert(table.to_batches(), spec).write())
    assert plan_compaction(spec) == ()
    small = replace(spec, runs=(replace(spec.runs[0], key_groups=key_groups_of(0, 16, 128)), *spec.runs[1:]))
    assert plan_compaction(small) == small.runs
