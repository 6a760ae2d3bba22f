"""A directory has one owner: a second pipeline is refused before it has staged anything, and deletes nothing there."""

import os

import pytest
from memory_store import MemoryCheckpointStore
from owned_tables import Owned
from parquet_sinks import stage
from worlds import ManualClock, MemoryStorage

from tidegate import FileSource, Pipeline, count
from tidegate.coordination.context import context_of
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.protocol.facts.errors import PipelineIdentityError, SinkError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.recovery.changes import ChangeVerdict
from tidegate.protocol.recovery.ownership import Owner
from tidegate.sinks.parquet import ParquetSink


@pytest.mark.parametrize("mode", ["latest", "append"])
def test_a_second_pipeline_in_the_directory_is_refused_and_the_first_goes_on(store, tmp_path, mode):
    first = Owned(store, "a", tmp_path / "t", mode)
    for number in (1, 2, 3):
        assert first.take(f"a{number}") == number
    before, second = first.files(), Owned(store, "b", tmp_path / "t", mode)
    for refused in (second.coordinator.check, lambda: second.begin("b1"), second.coordinator.start_region):
        with pytest.raises(PipelineIdentityError, match=r"sink 't'.*belongs to pipeline a.*another directory"):
            refused()
    second.coordinator.clean()
    assert first.files() == before
    assert store.history("b", 9) == []
    assert first.take("a4") == 4
    assert first.rows() == ([4] if mode == "latest" else [1, 2, 3, 4])


def test_a_pipeline_that_is_renamed_does_not_begin_where_its_tables_already_are(store, tmp_path):
    """Without a mark, too: the plan and a run say the same, before anything is staged."""
    old = Owned(store, "old", tmp_path / "t", "append")
    old.take("o1")
    renamed = Owned(store, "renamed", tmp_path / "t", "append")
    (tmp_path / "t" / "_owner").unlink()
    before = old.files()
    planned = renamed.coordinator.planning.plan()
    (sink,) = [each for each in planned.vertices if each.name == "t"]
    assert sink.verdict is ChangeVerdict.REFUSES
    assert "is not empty" in sink.changes[0]
    assert planned.summary() == "Pipeline renamed cannot begin where its sinks write. Nothing was changed."
    with pytest.raises(PipelineIdentityError, match=r"is not empty.*another directory.*tidegate relocate renamed"):
        renamed.begin("r1")
    assert old.files() == before
    assert old.take("o2") == 2


def test_a_new_sink_of_a_pipeline_does_not_begin_on_another_ones_table_either(store, tmp_path):
    Owned(store, "a", tmp_path / "t").take("a1")
    with_sink = Owned(store, "b", tmp_path / "own")
    with_sink.take("b1")
    stream = next(stream for stream in with_sink.pipeline.vertices if stream.name == "t").input
    stream.sink("more", ParquetSink(str(tmp_path / "t"), "latest"))
    with_sink.reopen()
    planned = with_sink.coordinator.planning.plan()
    assert {each.name: each.verdict.value for each in planned.vertices}["more"] == "refuses"
    with pytest.raises(PipelineIdentityError, match=r"sink 'more'.*belongs to pipeline a"):
        with_sink.begin("b2")


def test_a_directory_is_taken_over_when_a_person_says_so_and_its_numbers_are_not_given_out_again(store, tmp_path):
    first = Owned(store, "a", tmp_path / "t")
    for number in (1, 2, 3):
        first.take(f"a{number}")
    staged = first.begin("a4")
    second = Owned(store, "b", tmp_path / "t")
    with pytest.raises(PipelineIdentityError, match="belongs to pipeline a"):
        second.coordinator.relocate()
    (said,) = map(str, second.coordinator.moved(take_over=True))
    assert (
        said == f"the output of sink 't' ({tmp_path / 't'}) belongs to pipeline a, and is taken over with its content"
    )
    second.coordinator.relocate(take_over=True)
    assert second.take("b1") == 5
    assert second.rows() == [5]
    before = second.files()
    first.complete(staged)
    with pytest.raises(SinkError, match=r"Checkpoint 4 of pipeline a is complete.*belongs to pipeline b"):
        first.coordinator.notify(staged)
    with pytest.raises(PipelineIdentityError, match="belongs to pipeline b"):
        first.coordinator.cleaning.clean()
    first.coordinator.clean()
    first.clock.advance(90_000)
    first.coordinator.clean()
    assert second.files() == before


def test_what_was_staged_while_the_directory_was_another_ones_is_deleted_when_it_is_not_any_more(store, tmp_path):
    """An import into a new database stages first, and marks the directory as its own with its commit."""
    first = Owned(store, "a", tmp_path / "t")
    first.take("a1")
    before, mine = first.files(), first.sink.owner()
    aborted = first.begin("a2")
    stage(first.sink, aborted, 7)  # by an attempt that died before it could acknowledge
    first.sink.mark_anew(Owner("a", "t", "another database"))
    first.coordinator.abort(aborted, FailureReason.TASK_FAILURE, "It died.")
    first.clock.advance(90_000)
    first.coordinator.clean()
    assert first.files() > before
    first.sink.mark_anew(mine)
    first.coordinator.clean()
    assert first.files() == before


def test_a_cleaning_removes_what_no_commit_does_any_more_and_only_from_own_directories(store, tmp_path):
    first = Owned(store, "a", tmp_path / "t")
    for number in (1, 2, 3):
        first.take(f"a{number}")
    (tmp_path / "t" / f"_owner.{'0a' * 16}.tmp").touch()
    for old in (*(tmp_path / "t" / "_versions").iterdir(), *(tmp_path / "t").glob("*.tmp")):
        os.utime(old, (0, 0) if old.name != "chk-2" else (1, 1))
    before, gone = first.files(), {f"_owner.{'0a' * 16}.tmp", *map(str, first.versions(1))}
    planned = first.coordinator.cleaning.plan()
    assert {deletion.path for deletion in planned.garbage if deletion.owner == "sink:t-sink"} == gone
    Owned(store, "b", tmp_path / "t").coordinator.clean()
    assert first.files() == before
    assert first.coordinator.cleaning.clean().garbage == planned.garbage
    assert first.files() == before - gone
    assert first.coordinator.cleaning.plan().garbage == ()
    assert first.take("a4") == 4


def test_two_that_begin_at_once_do_not_both_own(store, tmp_path, monkeypatch):
    """The second finds the mark of the first between its look and its own mark."""
    first, second = Owned(store, "a", tmp_path / "t"), Owned(store, "b", tmp_path / "t")
    mark = ParquetSink.mark

    def overtaken(self, owner):
        monkeypatch.setattr(ParquetSink, "mark", mark)
        first.begin("a1")
        return mark(self, owner)

    monkeypatch.setattr(ParquetSink, "mark", overtaken)
    with pytest.raises(PipelineIdentityError, match="belongs to pipeline a"):
        second.begin("b1")
    assert store.history("b", 9) == []


def test_a_database_that_is_lost_and_recovered_has_its_tables_again(tmp_path):
    first = Owned(MemoryCheckpointStore(), "a", tmp_path / "t")
    first.take("a1")
    again = Owned(MemoryCheckpointStore(), "a", tmp_path / "t")
    for refused in (lambda: again.begin("a2"), again.coordinator.planning.plan):
        with pytest.raises(PipelineIdentityError, match=r"knows no checkpoint of pipeline a.*tidegate recover a"):
            refused()
    recovering = Recovering(context_of(again.coordinator.graph, again.store, again.storage, again.clock))
    recovering.recover(recovering.plan())
    assert again.take("a2") == 2
    with pytest.raises(PipelineIdentityError, match="belongs to the pipeline a of another database"):
        first.begin("a2")


def test_a_recovery_takes_nothing_over_from_another_pipeline(tmp_path):
    store = MemoryCheckpointStore()
    Owned(store, "a", tmp_path / "t").take("a1")
    (tmp_path / "t" / "_owner").write_bytes(Owner("b", "t", store.identity()).to_json())
    again = Owned(MemoryCheckpointStore(), "a", tmp_path / "t")
    recovering = Recovering(context_of(again.coordinator.graph, again.store, again.storage, again.clock))
    with pytest.raises(PipelineIdentityError, match="belongs to pipeline b"):
        recovering.plan()


def test_two_databases_do_not_share_a_checkpoint_storage_under_one_name(tmp_path):
    first = Owned(MemoryCheckpointStore(), "a", tmp_path / "t")
    first.begin("a1")
    second = Owned(MemoryCheckpointStore(), "a", tmp_path / "other")
    with pytest.raises(PipelineIdentityError, match=r"The checkpoint storage .* belongs to the pipeline a of another"):
        second.begin("a1")
    assert not list((tmp_path / "other").glob("*"))


def test_a_sink_that_is_renamed_keeps_its_directory(store, tmp_path):
    Owned(store, "a", tmp_path / "t", "append").take("a1")
    renamed = Owned(store, "a", tmp_path / "t", "append", sink="u")
    assert renamed.take("a2") == 2
    assert renamed.rows() == [1, 2]
    assert ParquetSink.owner(renamed.sink) == Owner("a", "u", store.identity())


def test_a_directory_of_before_there_were_marks_is_marked_by_the_pipeline_that_goes_on_there(store, tmp_path):
    first = Owned(store, "a", tmp_path / "t")
    first.take("a1")
    (tmp_path / "t" / "_owner").unlink()
    first.reopen()
    assert first.take("a2") == 2
    assert first.sink.owner() == Owner("a", "t", store.identity())


def test_the_quarantine_of_a_source_is_owned_likewise(store, tmp_path):
    Owned(store, "a", tmp_path / "t").take("a1")
    pipeline = Pipeline("b", parallelism=1)
    kept = ParquetSink(str(tmp_path / "t"))
    source = FileSource(str(tmp_path / "in"), schema="k bigint", malformed="quarantine", quarantine=kept)
    pipeline.source("src", source).key_by("k").aggregate("op", n=count())
    with pytest.raises(PipelineIdentityError, match=r"sink 'src_quarantine'.*belongs to pipeline a"):
        CheckpointCoordinator(pipeline, store, MemoryStorage(), ManualClock()).trigger("b1")


def test_a_directory_that_cannot_be_marked_and_a_mark_that_is_damaged_are_named(store, tmp_path):
    (tmp_path / "t").write_text("no directory")
    with pytest.raises(SinkError, match=f"{tmp_path / 't'} cannot be listed: .*Not a directory"):
        Owned(store, "a", tmp_path / "t", storage=MemoryStorage()).begin("a1")
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "_owner").write_text("{")
    with pytest.raises(SinkError, match=r"_owner is damaged.*delete that file"):
        Owned(store, "a", tmp_path / "u", storage=MemoryStorage()).begin("a2")
    assert store.history("a", 9) == []
