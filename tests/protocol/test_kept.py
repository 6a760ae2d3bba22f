"""What kept checkpoints cost: shared files count once, and what one alone holds is what would become free."""

from hypothesis import given
from hypothesis import strategies as st
from records import at, completed

from tidegate.protocol.cleaning.clean_report import CleanReport, Cost, Damage, Kept, by_sink, reasons_text, weigh
from tidegate.protocol.cleaning.retention import Reason, Why
from tidegate.protocol.facts.records import CheckpointKind, Deletion

A, B, C, D = (Deletion("storage", name) for name in "abcd")
FILES = st.dictionaries(st.sampled_from([A, B, C, D]), st.just(10))


def test_shared_files_count_once_and_alone_is_what_nothing_else_refers_to():
    kept = {1: {A: 1, B: 2}, 2: {B: 2, C: 4}}
    weights = weigh(kept, [{A: 1, D: 8}, {D: 8}], {}, ())
    assert weights.each == {1: (Cost(2, 3), Cost(1, 1)), 2: (Cost(2, 6), Cost(1, 4))}
    assert (weights.total, weights.freed) == (Cost(3, 7), Cost(1, 8))


def test_merged_runs_and_what_is_in_progress_refer_to_files_too():
    weights = weigh({1: {A: 1, B: 2}}, [{C: 4, D: 8}], {A: 1, C: 4}, {B})
    assert weights.each == {1: (Cost(2, 3), Cost())}
    assert (weights.total, weights.freed) == (Cost(3, 7), Cost(1, 8))


@given(st.dictionaries(st.integers(1, 5), FILES, min_size=1), FILES, st.sets(st.sampled_from([A, B, C, D])))
def test_what_a_checkpoint_holds_alone_is_what_the_total_loses_without_it(kept, merged, in_use):
    weights = weigh(kept, (), merged, in_use)
    for id_, files in kept.items():
        others = {other: each for other, each in kept.items() if other != id_}
        assert weigh(others, [files], merged, in_use).freed == weights.each[id_][1]


def test_reasons_are_said_as_people_read_them():
    mine = completed(3, kind=CheckpointKind.SAVEPOINT, name="before the change")
    reasons = tuple(Reason(why, at(0) if "UNTIL" in why else None) for why in Why)
    assert reasons_text(Kept(mine, reasons, Cost(), Cost())) == (
        "latest, its sinks have not committed, savepoint before the change, retained, "
        "retained until 2026-01-01 12:00 UTC, undo until 2026-01-01 12:00 UTC"
    )


def test_a_report_says_what_went_and_what_is_wrong():
    kept = tuple(Kept(completed(id_), (Reason(Why.RETAINED),), Cost(2, 20), Cost(1, 10)) for id_ in (3, 4))
    garbage = tuple(Deletion("storage", f"f{number}") for number in range(12))
    report = CleanReport(
        "p", True, kept, Cost(3, 30), (completed(1), completed(2)), Cost(1, 5), garbage,
        by_sink({"out-sink": [1]}), by_sink({"out-sink": [2], "log-sink": []}), (9,), Cost(1, 10),
        (Damage("x", "The file x is missing.", (4,)),),
    )  # fmt: skip
    assert report.safe == [3]
    assert report.lines() == [
        "Checkpoint 3 is kept (retained): 2 files (20 bytes), of which 1 file (10 bytes) alone.",
        "Checkpoint 4 is kept (retained): 2 files (20 bytes), of which 1 file (10 bytes) alone.",
        "Pipeline p keeps 3 files (30 bytes).",
        "Deleted: checkpoints that are too old, 1, 2, with 1 file (5 bytes).",
        "Deleted: 12 files that nothing refers to, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 and 2 more.",
        "Deleted: rows that sink out has withdrawn of checkpoints 2.",
        "Kept for a restore: rows that sink out has withdrawn of checkpoints 1.",
        "Checkpoints 9 have completed on the storage, and this database does not know them: it may be older than the "
        "storage. Their files may lie anywhere, so no search for unreferenced files was made. If you do not need these "
        "checkpoints, remove their directories.",
        "Compared with checksums: 1 file (10 bytes).",
        "The file x is missing. Checkpoints that need it: 4.",
        "No damage was found of checkpoints 3. The tables are as they are. Nothing of pipeline p was deleted.",
    ]
