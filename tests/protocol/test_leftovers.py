"""Which files were left by somebody who has ended, as their paths and the database say."""

from datetime import timedelta

from cases import for_each
from records import at, completed, record

from tidegate.protocol.cleaning.leftovers import Listed, checkpoints_of, choose_left, find_foreign, listed_on_storage
from tidegate.protocol.cleaning.retention import SWEEP_FOR
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import ByCheckpoint, ByRegion
from tidegate.protocol.facts.records import Deletion

RUN = "p/chk-3/op/0-1-x.parquet"
SECOND = timedelta(seconds=1)
NONE = RegionRecord()
LATEST = completed(5, completed_at=at(0))
LONG_AFTER = at(0) + SWEEP_FOR + SECOND


def left(path, known=None, latest=LATEST, region=NONE, now=LONG_AFTER):
    listed = listed_on_storage("p", [path])
    return bool(choose_left(listed, dict.fromkeys(checkpoints_of(listed), known), latest, region, (), now))


@for_each("path", ["q/chk-3/op/x", "p/notes", "p/chk-3", "p/chk-03/op/x", "p/savepoints/a/_metadata"])
def test_a_path_that_says_no_writer_is_nobodys(path):
    assert listed_on_storage("p", [path]) == []


def test_a_path_says_who_wrote_it():
    shared = "p/shared/2/op/0-1-x.parquet"
    assert listed_on_storage("p", [RUN, shared]) == [
        Listed(Deletion("storage", RUN), ByCheckpoint(3)),
        Listed(Deletion("storage", shared), ByRegion(2)),
    ]


@for_each("status", Status)
def test_what_an_ended_checkpoint_wrote_is_left_and_what_one_in_progress_writes_is_not(status):
    known = record(3) if status is Status.IN_PROGRESS else completed(3, status=status)
    assert left(RUN, known, now=at(0)) is (status is not Status.IN_PROGRESS)


@for_each(
    ("latest", "now", "expected"),
    [
        (LATEST, LONG_AFTER, True),
        (LATEST, LONG_AFTER - SECOND, False),  # the later one has only just completed
        (completed(3, completed_at=at(0)), LONG_AFTER, False),
        (completed(2, completed_at=at(0)), LONG_AFTER, False),  # its number may be the next to be given out
        (None, LONG_AFTER, False),
    ],
)
def test_what_a_checkpoint_without_a_record_wrote_is_left_when_the_pipeline_has_gone_on(latest, now, expected):
    assert left(RUN, None, latest, now=now) is expected


@for_each(
    ("region", "now", "expected"),
    [
        (RegionRecord(2, at(0), at(0)), LONG_AFTER, False),  # it runs, or is taken for dead
        (RegionRecord(3, at(0), at(0)), at(0), True),  # overtaken
        (RegionRecord(2, at(0), None, at(0)), at(0), True),  # ended
        (RegionRecord(1, at(0), None, at(0)), LONG_AFTER, False),  # not begun
        (NONE, LONG_AFTER, False),
        (RegionRecord(2, at(0), None, at(0), swept=2), at(1), False),  # perhaps only reserved
        (RegionRecord(2, at(0), None, at(0), swept=2), LONG_AFTER, True),
    ],
)
def test_what_an_ended_region_wrote_is_left(region, now, expected):
    assert left("p/shared/2/op/0-1-x.parquet", region=region, now=now) is expected


def test_while_something_has_completed_that_is_not_known_nothing_counts_as_left():
    listed = [
        *listed_on_storage("p", [RUN, "p/chk-3/_committed", "p/chk-4/op/0-1-x.parquet"]),
        Listed(Deletion("sink:out-sink", "_staging/chk-3/0-1-x"), ByCheckpoint(3)),
        Listed(Deletion("sink:out-sink", "_staging/chk-4/_committed"), ByCheckpoint(4)),
    ]
    known = {3: None, 4: None}
    assert find_foreign(listed, known) == [3]
    assert choose_left(listed, known, LATEST, NONE, (), LONG_AFTER) == []
    known = {3: completed(3), 4: None}
    assert find_foreign(listed, known) == []
    assert choose_left(listed, known, LATEST, NONE, (), LONG_AFTER) == listed
    assert choose_left(listed, known, LATEST, NONE, {3, 4}, LONG_AFTER) == []  # being copied in
