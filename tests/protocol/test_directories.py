"""Which directories may be removed with all that comes there."""

from records import T0

from tidegate.protocol.directories import choose_closed
from tidegate.protocol.regions import RegionRecord, begun, ended

PATHS = ["p/chk-1/op/0", "p/chk-1/_metadata", "p/chk-12/op/0", "p/shared/1/op/0", "p/shared/2/op/0"]
OTHERS = ["p/_metadata", "p/chk-x/0", "p/chk-1", "pp/chk-1/0", "p/shared/x/0", "shared/1/0"]


def test_those_of_checkpoints_that_ended_and_of_regions_that_did() -> None:
    running = begun(begun(RegionRecord(), T0), T0)
    assert choose_closed("p", [*PATHS, *OTHERS], [12], running) == {"p/chk-1", "p/shared/1"}
    assert choose_closed("p", PATHS, [1, 12], ended(running, T0)) == {"p/shared/1", "p/shared/2"}
    assert choose_closed("p", PATHS, [1, 12], RegionRecord()) == set()


def test_a_name_is_taken_as_it_stands() -> None:
    assert choose_closed("a.b", ["aXb/chk-1/0", "a.b/chk-1/0"], [], RegionRecord()) == {"a.b/chk-1"}
