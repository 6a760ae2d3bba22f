"""Which files a report may name: its own, and those it carries over."""

from dataclasses import replace

import pytest
from cases import for_each

from tidegate.protocol.cleaning.own_files import require_own_files, require_own_runs
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.errors import ForeignPathError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.paths import write_prefix
from tidegate.protocol.facts.records import Acknowledgement, CompactedRun, HandleKind, Snapshot, StateHandle, SubtaskId

RUN, STAGED, CHANNEL = HandleKind.RUN, HandleKind.STAGED, HandleKind.CHANNEL


def one(path: str, created_by: int = 5, kind: HandleKind = RUN) -> StateHandle:
    groups = KeyGroupRange(0, 3) if kind is RUN else None
    return StateHandle(path, kind, 1, 1, "0" * 64, created_by, groups)


def report(*handles: StateHandle) -> None:
    """Attempt 2 at subtask 1 of `op`, for checkpoint 5 of `p`; three regions there were."""
    acknowledgement = Acknowledgement(SubtaskId("op", 1), 2, Snapshot(handles))
    require_own_files("p", 5, RegionRecord(3), [acknowledgement])


@for_each(
    "own",
    [
        one(write_prefix("p/chk-5", SubtaskId("op", 1), 2) + "-a.parquet"),
        one("p/chk-5/op/1-2-a-exchange.parquet", kind=HandleKind.EXCHANGE),
        one("p/chk-4/op/0-1-a.parquet", 4),  # carried over, from another subtask after a rescale
        one("p/chk-4/op/1-compacted-a.parquet", 4),
        replace(one("p/chk-4/old/1-1-a.parquet", 4), details={"written_as": "old"}),  # before the operator was renamed
        one("p/shared/3/op/1-3-a.parquet"),
        one("p/shared/2/op/1-2-a.parquet"),  # of a region that was overtaken, and reports late
        one("p/shared/1/op/0-1-a.parquet", 2),
        one("p/shared/3/op/1-compacted-a.parquet"),
        one("p/shared/3/other/0-3-a-exchange.parquet", kind=CHANNEL),
        one("p/shared/3/other/0-3-a-exchange.parquet", 4, kind=CHANNEL),
        one("_staging/chk-5/1-2-a.parquet", kind=STAGED),
        one("_staging/chk-4/0-1-a.parquet", 4, kind=STAGED),
    ],
    ids=lambda handle: f"{handle.path}-{handle.created_by}",
)
def test_a_report_may_name_what_its_attempt_wrote_and_what_it_carries_over(own: StateHandle) -> None:
    report(own)


@for_each(
    "foreign",
    [
        one("q/chk-5/op/1-2-a.parquet"),  # another pipeline
        one("q/chk-4/op/1-1-a.parquet", 4),
        one("pp/chk-5/op/1-2-a.parquet"),
        one("q/shared/3/op/1-3-a.parquet"),
        replace(one("p/chk-5/old/1-2-a.parquet"), details={"written_as": "old"}),  # renamed, but not carried over
        replace(one("p/chk-4/other/1-2-a.parquet", 4), details={"written_as": "old"}),
        one("p/chk-4/op/1-2-a.parquet"),  # another checkpoint, claimed as this one's
        one("p/chk-5/op/1-2-a.parquet", 4),
        one("p/chk-6/op/1-2-a.parquet", 6),
        one("p/chk-0/op/1-2-a.parquet", 0),
        one("p/chk-5/_metadata"),
        one("p/chk-4/_metadata", 4),
        one("p/chk-5/other/1-2-a.parquet"),  # another operator
        one("p/chk-4/other/1-2-a.parquet", 4),
        one("p/shared/3/other/1-3-a.parquet"),
        one("p/chk-5/op/0-2-a.parquet"),  # another subtask
        one("p/chk-5/op/1-1-a.parquet"),  # another attempt
        one("p/chk-5/op/1-22-a.parquet"),
        one("p/chk-5/op/1-compacted-a.parquet"),
        one("p/shared/4/op/1-4-a.parquet"),  # no such region
        one("p/shared/0/op/1-0-a.parquet"),
        one("p/shared/3/op/1-2-a.parquet"),
        one("p/shared/three/op/1-3-a.parquet"),
        one("p/chk-5/op/"),
        one("p/chk-5/op/1-2-a/b.parquet"),
        one("p/chk-5/op/../../../q/chk-1/op/0-1-a.parquet"),
        one("p/chk-5/../chk-5/op/1-2-a.parquet"),
        one("p/chk-5/op/./1-2-a.parquet"),
        one("p//chk-5/op/1-2-a.parquet"),
        one("/p/chk-5/op/1-2-a.parquet"),
        one("file:///p/chk-5/op/1-2-a.parquet"),
        one(""),
        one("p/chk-4/other/0-3-a-exchange.parquet", kind=CHANNEL),
        one("q/shared/3/other/0-3-a-exchange.parquet", kind=CHANNEL),
        one("_staging/chk-4/1-2-a.parquet", kind=STAGED),
        one("_staging/chk-5/0-2-a.parquet", kind=STAGED),
        one("_staging/chk-5/1-1-a.parquet", kind=STAGED),
        one("_staging/chk-3/0-1-a.parquet", 4, kind=STAGED),
        one("../other/_staging/chk-5/1-2-a.parquet", kind=STAGED),
        one("/data/_staging/chk-5/1-2-a.parquet", kind=STAGED),
        one("chk-5", kind=STAGED),
        one("checkpoint=5/1-2-a.parquet", kind=STAGED),
    ],
    ids=lambda handle: f"{handle.path}-{handle.created_by}",
)
def test_a_report_may_not_name_what_others_wrote(foreign: StateHandle) -> None:
    with pytest.raises(ForeignPathError, match=r"Attempt 2 of subtask op/1 of checkpoint 5 of pipeline p reported"):
        report(one("p/chk-5/op/1-2-a.parquet"), foreign)


def merged(**changes: object) -> CompactedRun:
    good = one("p/chk-5/op/1-compacted-a.parquet")
    return CompactedRun(SubtaskId("op", 1), replace(good, **changes), ("a", "b"))  # type: ignore[arg-type]


def test_a_merged_run_lies_where_its_checkpoint_merges() -> None:
    require_own_runs("p", 5, [merged()])
    for changes in (
        {"path": "q/chk-5/op/1-compacted-a.parquet"},
        {"path": "p/chk-4/op/1-compacted-a.parquet"},
        {"path": "p/chk-5/other/1-compacted-a.parquet"},
        {"path": "p/chk-5/op/0-compacted-a.parquet"},
        {"path": "p/chk-5/op/1-2-a.parquet"},
        {"path": "p/chk-5/op/1-compacted-a/../../../../q/x"},
        {"created_by": 4},
        {"kind": HandleKind.POSITION},
    ):
        with pytest.raises(ForeignPathError, match="It was not recorded, and nothing is deleted"):
            require_own_runs("p", 5, [merged(), merged(**changes)])
