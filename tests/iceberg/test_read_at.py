"""`tidegate.read` of Iceberg tables: as of any checkpoint that is kept, whatever they show now."""

import pytest
from marts import values

import tidegate
from tidegate import IcebergSink


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_each_kept_checkpoint_is_read_also_after_a_restore(lake, mart, mode):
    of = mart(out=IcebergSink("db.out", mode))
    for number in (1, 2, 3):
        of.take(out=values(number))
    shown = {1: [1], 2: [1, 2], 3: [1, 2, 3]} if mode == "append" else {1: [1], 2: [2], 3: [3]}

    def read(checkpoint):
        return sorted(tidegate.read(of.pipeline, "out", checkpoint=checkpoint).arrow()["out"]["v"].to_pylist())

    assert {id_: read(id_) for id_ in shown} == shown
    of.restore(1)
    assert read(1) == [1]
