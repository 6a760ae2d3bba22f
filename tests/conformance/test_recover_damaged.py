"""What lies on storage of a lost database is damaged, or is not all that the tables show."""

import pytest
from lost_databases import check_nothing_is_recorded

from tidegate.protocol.facts.errors import (
    RecoveryRefusedError,
)
from tidegate.protocol.facts.paths import marker_path, metadata_path

DAMAGE = {
    "is missing|p/chk-[24]/op/0-1-x": lambda world, id_: world.storage.files.pop(f"p/chk-{id_}/op/0-1-x.parquet"),
    "is damaged": lambda world, id_: world.storage.files.update({f"p/chk-{id_}/op/0-1-x.parquet": b"other"}),
    "is not JSON": lambda world, id_: world.storage.files.update(
        {metadata_path("p", id_): world.storage.files[metadata_path("p", id_)][:-9]}
    ),
    "differs from the committed one": lambda world, id_: world.change(metadata_path("p", id_), request_id="other"),
    "is of checkpoint 1 of pipeline q": lambda world, id_: world.change(
        metadata_path("p", id_), pipeline="q", checkpoint_id=1
    ),
    "newer release of Tidegate": lambda world, id_: world.change(metadata_path("p", id_), version=2),
    "_committed has version 2": lambda world, id_: world.change(marker_path("p", id_), version=2),
    "has no _metadata": lambda world, id_: world.storage.files.pop(metadata_path("p", id_)),
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_if_the_newest_is_damaged_nothing_changes_until_it_is_given_up(lost, reason):
    world, lose = lost
    lose()
    DAMAGE[reason](world, 4)
    with pytest.raises(RecoveryRefusedError, match=f"Checkpoint 4: .*({reason}).*Nothing was changed.*--withdraw"):
        world.recover()
    check_nothing_is_recorded(world)
    assert world.recover(withdraw=True).lost == [4]
    assert world.ids()[0] == [1, 2, 3]
    assert world.take("r5") == 5
    assert [handle.created_by for handle in world.restored] == [1, 2, 3]
    assert world.shown() == [1, 2, 3, 5]


@pytest.mark.parametrize("reason", [each for each in DAMAGE if "damaged" not in each and "missing" not in each])
def test_if_an_older_one_is_damaged_it_is_listed_and_the_others_are_recovered(lost, reason):
    world, lose = lost
    lose()
    DAMAGE[reason](world, 2)
    (left,) = world.recover().unrecovered
    assert (left.checkpoint_id, left.had_completed) == (2, True)
    assert world.ids()[0] == [1, 3, 4]
    assert world.take("r5") == 5
    assert world.shown() == [1, 2, 3, 4, 5]


def test_a_file_that_all_refer_to_is_missed_by_all(lost):
    world, lose = lost
    lose()
    del world.storage.files["p/chk-1/op/0-1-x.parquet"]
    with pytest.raises(RecoveryRefusedError, match="no checkpoint on memory:// that can be recovered"):
        world.recover()
    check_nothing_is_recorded(world)


def test_rows_of_checkpoints_that_storage_does_not_know_are_not_left_to_be_there_twice(lost):
    """The storage is an older copy than the tables."""
    world, lose = lost
    lose()
    world.storage.files = {path: content for path, content in world.storage.files.items() if "chk-4" not in path}
    with pytest.raises(RecoveryRefusedError, match="Checkpoint 4: nothing of it is on the checkpoint storage"):
        world.recover()
    check_nothing_is_recorded(world)
    world.recover(withdraw=True)
    assert world.take("again") == 5
    assert world.shown() == [1, 2, 3, 5]
