"""What files and directories are called: their names, which are on people's disks, and what is read back from them."""

from cases import for_each

from tidegate.protocol.facts.paths import (
    ByCheckpoint,
    ByRegion,
    attempt_prefix,
    checkpoint_id_of,
    checkpoint_name,
    compaction_prefix,
    directory,
    metadata_path,
    operator_directory,
    shared_directory,
    shared_root,
    write_prefix,
    writer_of,
)
from tidegate.protocol.facts.records import SubtaskId

FIRST = SubtaskId("op", 1)


def test_names_are_as_they_were_written_before() -> None:
    assert directory("p", 5) == "p/chk-5"
    assert metadata_path("p", 5) == "p/chk-5/_metadata"
    assert (shared_root("p"), shared_directory("p", 3)) == ("p/shared", "p/shared/3")
    assert operator_directory("p/chk-5", "op") == "p/chk-5/op"
    assert write_prefix("p/chk-5", FIRST, 2) == "p/chk-5/op/1-2"
    assert compaction_prefix("p/shared/3", FIRST) == "p/shared/3/op/1-compacted"
    assert attempt_prefix(1, 2) == "1-2"


@for_each("checkpoint_id", [0, 1, 10, 2**63 - 1])
def test_a_checkpoint_is_known_by_its_name(checkpoint_id: int) -> None:
    assert checkpoint_name(checkpoint_id) == f"chk-{checkpoint_id}"
    assert checkpoint_id_of(checkpoint_name(checkpoint_id)) == checkpoint_id


@for_each(
    "name",
    [
        *("", "7", "chk-", "chk-x", "chk-7 ", "chk-7\n", "chk--7", "CHK-7", "xchk-7", "chk-7.tmp", "chk-7/a"),
        "chk-07",
        "chk-\u0667",  # a digit, but not one of ours
        f"chk-{'9' * 5000}",  # more digits than Python makes a number of
    ],
)
def test_what_nobody_called_after_a_checkpoint_is_not_taken_for_one(name: str) -> None:
    assert checkpoint_id_of(name) is None


@for_each(
    ("path", "writer"),
    [
        ("p/chk-5/_metadata", ByCheckpoint(5)),
        (f"{write_prefix(directory('p', 5), FIRST, 2)}-a.parquet", ByCheckpoint(5)),
        (f"{write_prefix(shared_directory('p', 3), FIRST, 3)}-a.parquet", ByRegion(3)),
        ("p/shared/3/x", ByRegion(3)),
        *((path, None) for path in ("p/chk-5", "p/shared/3", "p/chk-x/a", "p/shared/x/a", "p/shared/03/a", "p/a/b")),
        *((path, None) for path in ("pp/chk-5/a", "chk-5/a", "/p/chk-5/a", "p//chk-5/a", "shared/3/a", "p", "")),
    ],
)
def test_a_path_says_who_wrote_the_file(path: str, writer: ByCheckpoint | ByRegion | None) -> None:
    assert writer_of("p", path) == writer
