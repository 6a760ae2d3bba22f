"""The way back for a corrected file, while somebody else restores: what is planned is true of one moment."""

from datetime import datetime

import pytest
from pasts import Past
from worlds import SplitSource

from tidegate.ports import PieceVersion, ReadPiece
from tidegate.protocol.facts.errors import RestoreRefusedError, StateIntegrityError


class NumberedFiles(SplitSource):
    """Checkpoint N has read the files 1 to N. `meanwhile` is called when it is about to say so."""

    def __init__(self):
        super().__init__()
        self.meanwhile = lambda checkpoint_id: None

    def name_of(self, given):
        return given

    def find_read(self, names, taken, storage):
        newest = max(snapshot.position["read"] for snapshot in taken)
        self.meanwhile(newest)
        then, now = (PieceVersion(size, datetime.min, None) for size in (1, 2))
        return {name: ReadPiece(name, int(name), then, now, False) for name in names if int(name) <= newest}


@pytest.fixture
def past(store, monkeypatch):
    """With checkpoints 1 to 4 behind it."""
    monkeypatch.setattr("worlds.SplitSource", NumberedFiles)
    world = Past(store, retained=9)
    for number in (1, 2, 3, 4):
        world.take(f"r{number}")
    (source,) = world.coordinator.graph.sources
    return world, source.source


def test_the_way_back_is_the_newest_checkpoint_that_has_read_none_of_them(past):
    world, _ = past
    assert world.coordinator.replacing.plan("src", ["3", "4"]).target.checkpoint_id == 2


def test_a_checkpoint_that_is_left_behind_meanwhile_is_no_way_back(past):
    world, source = past

    def restore(checkpoint_id):
        if checkpoint_id == 2 and world.ids()[0] != [1]:
            world.restore(1)

    source.meanwhile = restore
    with pytest.raises(RestoreRefusedError, match="3 was not read by source src of pipeline p"):
        world.coordinator.replacing.plan("src", ["3"])


def test_what_was_left_behind_and_deleted_meanwhile_is_no_damage(past):
    world, source = past

    def delete(checkpoint_id):
        if checkpoint_id == 4:
            world.restore(2)
            raise StateIntegrityError("a manifest is gone")

    source.meanwhile = delete
    with pytest.raises(RestoreRefusedError, match="3 was not read"):
        world.coordinator.replacing.plan("src", ["3"])


def test_damage_is_said(past):
    world, source = past

    def damaged(checkpoint_id):
        raise StateIntegrityError("a manifest is gone")

    source.meanwhile = damaged
    with pytest.raises(StateIntegrityError, match="a manifest is gone"):
        world.coordinator.replacing.plan("src", ["3"])
