"""Whether rows may have expired since a table was staged, and what a merged run still says of them."""

from cases import for_each

from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.protocol.schema.expiry import TTL, RecordedTtl, may_expire_between, merged

CURRENT = RecordedTtl("at", 10, True)


def run(**times: int) -> StateHandle:
    """A run whose rows have such times."""
    return StateHandle(
        "run", HandleKind.RUN, 1, 1, "", 1, details={TTL: RecordedTtl("at", 10, True, **times).to_json()}
    )


@for_each(
    ("times", "before", "now", "expected"),
    [
        ({"oldest": 5, "newest": 9}, 4, 4, False),  # no time has passed
        ({"oldest": 5, "newest": 9}, 3, 4, False),  # all are younger
        ({"oldest": 5, "newest": 9}, 9, 12, False),  # all had expired before
        ({"oldest": 5, "newest": 9}, 4, 5, True),
        ({"oldest": 5, "newest": 9}, None, 5, True),
        ({"oldest": 5, "newest": 9}, 9, 8, True),  # a clock was set back: it lives again
        ({"oldest": 5, "newest": 9}, 12, 9, False),
        ({}, 4, 9, False),  # no row has a time
        # A merge has taken away what expired: nothing is left to tell of its time.
        ({"removed": 2, "removed_to": 6}, 5, 9, True),
        ({"removed": 2, "removed_to": 6}, None, 9, True),
        ({"removed": 2, "removed_to": 6}, 6, 9, False),  # it was left out of the table before
    ],
)
def test_rows_may_have_expired_between(
    times: dict[str, int], before: int | None, now: int | None, expected: bool
) -> None:
    assert may_expire_between(CURRENT, [run(**times)], before, now) is expected


def test_nothing_expires_without_a_rule_or_a_time() -> None:
    assert not may_expire_between(None, [run(oldest=5, newest=9)], 4, 9)
    assert not may_expire_between(CURRENT, [run(oldest=5, newest=9)], 4, None)


def test_a_merged_run_does_not_forget_what_time_it_was_nor_what_is_gone() -> None:
    """By event time that is known from runs alone: without it, rows that had expired would be shown again."""
    runs = [run(oldest=5, newest=9, clock=7, removed=1, removed_to=3), run(oldest=2, newest=4, clock=8)]
    found = merged(CURRENT, runs, checkpoint_id=1)  # which has brought these rows itself
    assert (found.clock, found.newest, found.removed, found.removed_to) == (8, 9, 1, 3)
    assert merged(CURRENT, runs, checkpoint_id=2).clock == 9
