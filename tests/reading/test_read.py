"""`tidegate.read`: several tables as of one checkpoint, whatever each of them shows at the moment."""

import threading
import time

import pytest
from several_tables import SeveralTables, values

import tidegate
from tidegate.protocol.facts.errors import (
    CheckpointInDoubtError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ConfigurationError,
    OperatorNotFoundError,
    PipelineNotFoundError,
    SinkError,
)
from tidegate.protocol.facts.reasons import FailureReason


@pytest.fixture
def here(running_url, tmp_path, monkeypatch):
    """Where a program reads that knows no more than the names."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    return tmp_path


@pytest.fixture
def shop(store, here):
    return SeveralTables(store, here)


def fails(call, error=SinkError):
    with pytest.raises(error):
        call()


def test_all_tables_are_of_the_newest_checkpoint_that_all_sinks_show(shop):
    shop.take()
    shop.take()
    shop.finalize()
    found = tidegate.read("shop")
    assert (found.checkpoint, found.names) == (2, ("events", "merged", "now"))
    assert values(found) == {"events": [1, 2], "merged": [1, 2], "now": [2]}


def test_while_one_sink_is_told_and_another_is_not_it_is_the_checkpoint_before(shop):
    shop.take()
    shop.block("now")
    id_ = shop.finalize()
    fails(lambda: shop.coordinator.notify(id_))
    assert tidegate.read("shop").checkpoint == 1
    assert values(tidegate.read("shop", "events", "now")) == {"events": [1], "now": [1]}
    with pytest.raises(CheckpointInDoubtError, match="not every table shows it"):
        tidegate.read("shop", "events", checkpoint=2)
    with pytest.raises(CheckpointInDoubtError):
        tidegate.read("shop", wait="1 s")
    shop.unblock("now")
    shop.coordinator.notify(id_)
    assert values(tidegate.read("shop", wait="1 s")) == {"events": [1, 2], "merged": [1, 2], "now": [2]}


def test_a_reader_waits_until_all_sinks_show_what_has_completed(shop):
    shop.take()
    id_ = shop.finalize()
    late = threading.Timer(1, lambda: shop.coordinator.notify(id_))
    late.start()
    begun = time.monotonic()
    assert values(tidegate.read("shop", "now", wait="30 s")) == {"now": [2]}
    assert 0.5 < time.monotonic() - begun < 25
    late.join()


def test_an_earlier_checkpoint_is_read_as_long_as_it_is_kept(shop):
    for _ in range(5):
        shop.take()
    assert values(tidegate.read("shop", checkpoint=3)) == {"events": [1, 2, 3], "merged": [1, 2, 3], "now": [3]}
    assert values(tidegate.read("shop", "events", checkpoint=1)) == {"events": [1]}


def test_of_a_replaced_table_what_a_kept_checkpoint_has_staged_is_read(store, here):
    shop = SeveralTables(store, here, retained=3, readable_for="0 s")
    for _ in range(6):
        shop.take()
    assert values(tidegate.read("shop", checkpoint=4)) == {"events": [1, 2, 3, 4], "merged": [1, 2, 3, 4], "now": [4]}
    with pytest.raises(CheckpointNotRetainedError, match="was replaced by later ones"):
        tidegate.read("shop", "now", checkpoint=2)
    assert values(tidegate.read("shop", "merged", checkpoint=2)) == {"merged": [1, 2]}


def test_after_a_restore_it_is_the_restored_checkpoint_and_the_other_branch_has_its_number(shop):
    for _ in range(3):
        shop.take()
    shop.restore(1)
    assert values(tidegate.read("shop")) == {"events": [1], "merged": [1], "now": [1]}
    shop.take()
    assert values(tidegate.read("shop")) == {"events": [1, 4], "merged": [1, 4], "now": [4]}
    assert values(tidegate.read("shop", checkpoint=3)) == {"events": [1, 2, 3], "merged": [1, 2, 3], "now": [3]}
    shop.restore()
    assert values(tidegate.read("shop")) == {"events": [1, 2, 3], "merged": [1, 2, 3], "now": [3]}


def test_while_a_restore_takes_tables_back_it_is_the_restored_checkpoint_already(shop):
    for _ in range(3):
        shop.take()
    shop.block("merged")
    fails(lambda: shop.restore(1))
    assert values(tidegate.read("shop")) == {"events": [1], "merged": [1], "now": [1]}
    shop.unblock("merged")
    shop.take()
    assert values(tidegate.read("shop")) == {"events": [1, 4], "merged": [1, 4], "now": [4]}


def test_tables_that_were_found_are_read_after_a_restore_has_moved_their_files(shop):
    for _ in range(3):
        shop.take()
    found = tidegate.read("shop")
    shop.restore(1)
    assert values(found) == {"events": [1, 2, 3], "merged": [1, 2, 3], "now": [3]}


def test_a_table_without_rows_at_a_checkpoint_has_none(shop):
    shop.take("events", "merged")
    assert values(tidegate.read("shop", "now")) == {"now": [1]}
    found = tidegate.read("shop")
    assert {name: (table.num_rows, table.num_columns) for name, table in found.arrow().items()} == {
        "events": (0, 0), "merged": (0, 0), "now": (1, 1),
    }  # fmt: skip
    with pytest.raises(ConfigurationError, match="'events' has no rows"):
        found.duckdb(None)


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"names": ["sohp"]}, PipelineNotFoundError, "no pipeline 'sohp'"),
        (
            {"names": ["shop", "evnets"]},
            OperatorNotFoundError,
            "no sink 'evnets'. .* Its sinks: events, merged",
        ),
        ({"checkpoint": 9}, CheckpointNotFoundError, "no checkpoint 9"),
        ({"checkpoint": 2}, CheckpointNotRetainedError, "it is FAILED"),
        ({"checkpoint": "newest"}, ConfigurationError, "\"latest\", and not 'newest'"),
    ],
)
def test_what_cannot_be_read_is_said(shop, asked, error, says):
    shop.take()
    failed = shop.coordinator.trigger("f").checkpoint_id
    shop.coordinator.abort(failed, FailureReason.COORDINATOR_SUSPEND, "by hand")
    with pytest.raises(error, match=says):
        tidegate.read(*asked.get("names", ["shop"]), checkpoint=asked.get("checkpoint", "latest"))


def test_nothing_is_read_before_the_first_checkpoint_is_shown(shop):
    shop.finalize()
    with pytest.raises(CheckpointNotFoundError, match="no completed checkpoint that its sinks show yet"):
        tidegate.read("shop")


def test_a_table_that_is_not_mounted_is_no_empty_table(shop, here):
    shop.take()
    (here / "tables").rename(here / "elsewhere")
    with pytest.raises(SinkError, match="is not there"):
        tidegate.read("shop", "events")


def test_a_file_that_was_deleted_by_hand_is_missed(shop, here, monkeypatch):
    monkeypatch.setattr("tidegate.tables.finding._PATIENCE", 0.3)
    shop.take()
    (here / "tables/events/checkpoint=1").rename(here / "gone")
    with pytest.raises(SinkError, match="no files of the table were deleted by hand"):
        tidegate.read("shop", "events")


def test_without_the_definition_on_storage_the_pipeline_itself_is_needed(shop, here, monkeypatch):
    shop.take()
    monkeypatch.setenv("TIDEGATE_STORAGE", str(here / "nowhere"))
    with pytest.raises(ConfigurationError, match="Set TIDEGATE_STORAGE"):
        tidegate.read("shop")
    assert values(tidegate.read(shop.pipeline)) == {"events": [1], "merged": [1], "now": [1]}
