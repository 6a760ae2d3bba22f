"""An appended table as few files: what the view shows, whatever is merged, dies, stops and goes back. No Spark."""

import itertools
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from commits import Attempt, commit
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_sinks import Died, Mortal, shown, stage, tree
from stopped import Stopped

from tidegate.ports import StageContext
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import PipelineDefinitionError, SupersededAttemptError
from tidegate.sinks import merged
from tidegate.sinks.merged import choose_merges, find_usable, merged_name
from tidegate.sinks.parquet import ParquetSink


def table(name: str = "t") -> ParquetSink:
    return ParquetSink(name, merge=True, readable_for="0 s")


def fill(sink: ParquetSink, *ids: int) -> None:
    for id_ in ids:
        commit(sink, id_, [stage(sink, id_, id_), stage(sink, id_, id_ * 100, subtask=1)])


def rows_of(*ids: int) -> list[int]:
    return sorted([*ids, *(id_ * 100 for id_ in ids)])


def test_the_view_has_every_row_once_in_few_files_and_the_table_stays_as_it_is():
    sink = table()
    for id_ in range(1, 101):
        fill(sink, id_)
        assert shown(sink.table()) == rows_of(*range(1, id_ + 1))
    assert shown(sink.root) == rows_of(*range(1, 101))
    assert len(os.listdir(sink.table())) < 32
    assert sink.table() == os.path.realpath(Path(sink.root, "_merged/current"))
    assert pyarrow.dataset.dataset(sink.table()).to_table().column_names == ["v"]


def test_a_reader_that_resolved_the_link_finishes_whatever_is_merged_meanwhile():
    sink = ParquetSink("t", merge=True)
    fill(sink, *range(1, 6))
    opened = sink.table()
    fill(sink, *range(6, 30))
    assert shown(opened) == rows_of(*range(1, 6))


def test_a_table_of_many_partitions_gets_a_view_with_its_next_checkpoint_and_none_is_left_behind_without_one():
    sink = ParquetSink("t")
    fill(sink, *range(1, 40))
    assert sink.table() == sink.root
    fill(table(), 40)
    assert shown(table().table()) == rows_of(*range(1, 41))
    assert len(os.listdir(table().table())) < 32


def test_a_sink_that_merges_no_more_leaves_no_view_that_is_out_of_date():
    fill(table(), 1, 2)
    fill(ParquetSink("t"), 3)
    assert not Path(table().root, "_merged").exists()
    assert table().table() == table().root
    fill(table(), 4)
    assert shown(table().table()) == rows_of(1, 2, 3, 4)


def test_a_checkpoint_without_rows_and_a_late_repeat_leave_the_view_as_it_is():
    sink, first = table(), [stage(table(), 1, 1)]
    commit(sink, 1, first)
    fill(sink, 2)
    opened = sink.table()
    commit(sink, 3, [])
    commit(sink, 1, first)
    assert (sink.table(), shown(opened)) == (opened, sorted([1, *rows_of(2)]))


def test_files_of_another_schema_are_merged_among_themselves():
    sink = table()
    for id_ in range(1, 41):
        rows = pa.table({"v": [id_]} if id_ <= 20 else {"v": [id_], "w": [id_]})
        commit(sink, id_, sink.writer().stage(rows, StageContext(id_, 0, 1, "u")))
        assert shown(sink.table()) == list(range(1, id_ + 1))
    assert len(os.listdir(sink.table())) < 20


def test_a_partition_that_somebody_deleted_is_gone_from_the_next_version_too():
    sink = table()
    fill(sink, *range(1, 21))
    for file in [*Path(sink.root, "checkpoint=3").iterdir(), *Path(sink.root, "checkpoint=20").iterdir()]:
        file.unlink()
    Path(sink.root, "checkpoint=3").rmdir()
    Path(sink.root, "checkpoint=20").rmdir()
    fill(sink, 21)
    assert shown(sink.table()) == rows_of(1, 2, *range(4, 20), 21)


BACK, FORTH = Branch(((1, 13),)), Branch(((1, 20),))


def test_a_rewind_shows_the_branch_and_its_undo_what_was_there_before():
    sink = table()
    fill(sink, *range(1, 21))
    sink.rewind(13, BACK, [], Attempt())
    assert shown(sink.table()) == rows_of(*range(1, 14))
    fill(sink, *range(21, 41))
    assert shown(sink.table()) == shown(sink.root) == rows_of(*range(1, 14), *range(21, 41))
    sink.rewind(20, FORTH, [], Attempt())
    assert shown(sink.table()) == shown(sink.root) == rows_of(*range(1, 21))
    sink.rewind(0, Branch(()), [], Attempt())
    assert not Path(sink.root, "_merged/current").exists()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_one_that_dies_anywhere_shows_all_or_nothing_and_a_repeat_finishes_it(after, monkeypatch):
    merges, sights = set(), set()
    for at in itertools.count(1):
        sink, died = table(f"died-{at}"), False
        for id_ in range(1, 8):
            commit(sink, id_, [stage(sink, id_, id_)])
        eighth = [stage(sink, 8, 8), stage(sink, 8, 80, subtask=1)]
        for step in (lambda s=sink, e=eighth: commit(s, 8, e), lambda s=sink: s.rewind(5, BACK_TO_5, [], Attempt())):
            with monkeypatch.context() as patch:
                Mortal(patch, at, after)
                try:
                    step()
                except Died:
                    died = True
            sights.add(tuple(shown(sink.table())))
            step()
            sights.add(tuple(shown(sink.table())))
            merges.add(len(os.listdir(sink.table())))
        assert shown(sink.table()) == shown(sink.root) == [1, 2, 3, 4, 5]
        assert os.listdir(Path(sink.root, "_committing")) == []
        if not died:
            break
    assert at > 20
    assert 1 in merges  # the eighth checkpoint merges all
    assert sights == {(1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 7, 8, 80), (1, 2, 3, 4, 5)}


BACK_TO_5 = Branch(((1, 5),))


def test_one_that_is_stopped_and_goes_on_after_its_successor_changes_nothing(monkeypatch):
    for at in itertools.count(1):
        sink = table(f"zombie-{at}")
        for id_ in range(1, 8):
            commit(sink, id_, [stage(sink, id_, id_)])
        eighth, attempt = [stage(sink, 8, 8)], Attempt()
        with monkeypatch.context() as patch:
            zombie = Stopped(patch, at, lambda s=sink, e=eighth, a=attempt: s.commit(8, e, a))
            confirm = attempt.confirm
            attempt.confirm = lambda z=zombie, c=confirm: (z.meet("confirm"), c())
            if not zombie.begin():
                assert zombie.error is None
                break
            commit(sink, 8, eighth)
            assert shown(sink.table()) == [1, 2, 3, 4, 5, 6, 7, 8]
            sink.rewind(5, BACK_TO_5, [], Attempt())
            commit(sink, 9, [stage(sink, 9, 9)])
            seen, known = shown(sink.table()), tree(sink)
            assert seen == [1, 2, 3, 4, 5, 9]
            zombie.go_on()
            assert (shown(sink.table()), tree(sink)) == (seen, known)
            assert zombie.error is None or isinstance(zombie.error, SupersededAttemptError), repr(zombie.error)
    assert at > 20


def test_a_merge_that_takes_long_gives_signs_of_life_and_stops_when_it_is_overtaken():
    sink = table()
    for id_ in range(1, 8):
        commit(sink, id_, [stage(sink, id_, id_)])
    eighth, signs = [stage(sink, 8, 8)], []

    class Overtaken(Attempt):
        def keep(self):
            signs.append(1)
            if len(signs) == 5:
                commit(sink, 8, eighth)
                self.confirm()

    with suppress(SupersededAttemptError):
        sink.commit(8, eighth, Overtaken())
        pytest.fail("it was overtaken")
    assert shown(sink.table()) == [1, 2, 3, 4, 5, 6, 7, 8]


@given(st.sets(st.integers(1, 40), min_size=1), st.sets(st.integers(1, 40), min_size=1))
@settings(max_examples=200, deadline=None)
def test_merged_rows_are_used_for_exactly_their_checkpoints(made_of, visible):
    ids, name = sorted(visible), merged_name(sorted(made_of))
    within = [id_ for id_ in ids if min(made_of) <= id_ <= max(made_of)]
    assert bool(find_usable(ids, [name, "5.0-1-u.parquet", "x"])) == (within == sorted(made_of))


@given(st.lists(st.integers(0, merged._LARGE * 2), max_size=60), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_merges_are_of_neighbours_of_one_schema_below_the_bound(sizes, changed_at):
    merges = choose_merges(sizes, lambda at: b"a" if at < changed_at else b"b")
    parts = [at for merge in merges for at in merge]
    assert parts == sorted(set(parts))
    assert sum(sizes[at] for at in parts) <= merged._MOST_BYTES
    for merge in merges:
        assert len(merge) > 1
        assert (merge.start < changed_at) == (merge.stop - 1 < changed_at)
        assert all(sizes[at] < merged._LARGE for at in merge)
        assert sum(sizes[at] for at in merge[:-1]) < merged._LARGE


def test_many_small_parts_become_few_and_the_first_time_is_bounded():
    assert choose_merges([1] * 7, lambda at: b"") == []
    assert choose_merges([1] * 8, lambda at: b"") == [range(8)]
    assert choose_merges([merged._LARGE, *[1] * 8], lambda at: b"") == [range(1, 9)]
    (first,) = choose_merges([1] * 86_400, lambda at: b"")
    assert len(first) == merged._MOST_PARTS


def test_merging_is_for_appended_tables_and_changes_nothing_of_the_rows():
    with pytest.raises(PipelineDefinitionError, match=r'merge=True is for mode="append"'):
        ParquetSink("t", mode="latest", merge=True)
    assert table().describe() == ParquetSink("t").describe()
