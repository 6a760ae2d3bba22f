"""Which directories may be removed with all that comes there."""

from records import T0

from tidegate.protocol.cleaning.closed_directories import choose_closed, choose_unswept, closed_for_ever
from tidegate.protocol.continuous.regions import RegionRecord, begun, ended, swept
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus

PATHS = ["p/chk-1/op/0", "p/chk-1/_metadata", "p/chk-12/op/0", "p/shared/1/op/0", "p/shared/2/op/0"]
OTHERS = ["p/_metadata", "p/chk-x/0", "p/chk-1", "pp/chk-1/0", "p/shared/x/0", "shared/1/0"]


def test_those_of_checkpoints_that_ended_and_of_regions_that_did() -> None:
    running = begun(begun(RegionRecord(), T0), T0)
    assert choose_closed("p", [*PATHS, *OTHERS], [12], running) == {"p/chk-1", "p/shared/1"}
    assert choose_closed("p", PATHS, [1, 12], ended(running, T0)) == {"p/shared/1", "p/shared/2"}
    assert choose_closed("p", PATHS, [1, 12], RegionRecord()) == set()


def test_a_name_is_taken_as_it_stands() -> None:
    assert choose_closed("a.b", ["aXb/chk-1/0", "a.b/chk-1/0"], [], RegionRecord()) == {"a.b/chk-1"}


def test_those_of_regions_that_ended_and_were_not_looked_through_for_the_last_time() -> None:
    running = begun(begun(begun(RegionRecord(), T0), T0), T0)
    assert choose_unswept("p", RegionRecord()) == set()
    assert choose_unswept("p", running) == {"p/shared/1", "p/shared/2"}
    assert choose_unswept("p", swept(ended(running, T0), 1)) == {"p/shared/2", "p/shared/3"}
    assert choose_unswept("p", swept(ended(running, T0), 3)) == set()


def test_a_pipelines_own_only_when_it_can_never_go_on() -> None:
    closed = {status for status in PipelineStatus if closed_for_ever(PipelineRecord("p", status))}
    assert closed == {PipelineStatus.CANCELLED}
    assert closed_for_ever(PipelineRecord("p", PipelineStatus.CANCELLED)) == {"p"}
