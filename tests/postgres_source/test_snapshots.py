"""Which transactions lie between two snapshots, and where a poll goes on: a model of transactions that end in any
order, on a primary and on standbys that lag."""

from copy import deepcopy
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.postgres_sink.names import target_of
from tidegate.postgres_source.polls import Start, begin
from tidegate.postgres_source.positions import Cluster, Part, Position, parts_between
from tidegate.postgres_source.refusals import Reader
from tidegate.postgres_source.servers import Moment
from tidegate.postgres_source.snapshots import NOTHING, Seen, ended_between
from tidegate.protocol.facts.errors import SourceChangedError, SourceUnavailableError

#: What happens: a transaction begins, one of those that are open ends, a standby replays that, or one of the two is
#: polled.
STEPS = st.lists(
    st.one_of(st.just("begin"), st.integers(0, 9), st.sampled_from(["poll", "standby", "replay"])), max_size=80
)


@dataclass
class History:
    """Transactions with ids from 3 on. `ended`: in the order in which they ended."""

    begun: int = 2
    open: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def step(self, what: object) -> None:
        if what == "begin":
            self.begun += 1
            self.open.append(self.begun)
        elif isinstance(what, int) and self.open:
            self.ended.append(self.open.pop(what % len(self.open)))

    def snapshot(self) -> Seen:
        xmax = max(self.ended, default=2) + 1
        return Seen(xmax, frozenset(each for each in self.open if each < xmax))

    def of_standby(self) -> Seen:
        return Seen(min(self.open, default=self.begun + 1))

    def read(self, part: Part) -> set[int]:
        """As the statements do, of all transactions that have a row by now."""
        ended = ended_between(part.seen, part.until)
        later = [each for each in self.ended if ended.low <= each < ended.high and each not in ended.running]
        return {*(each for each in self.ended if each in ended.late), *later}


@given(STEPS)
def test_each_transaction_is_read_once(steps: list[object]) -> None:
    history, behind, seen, read = History(), History(), NOTHING, list[int]()
    for step in [*steps, *([0] * 80), "poll"]:
        if step == "replay":
            behind = deepcopy(history)
        history.step(step)
        if step in ("poll", "standby"):
            until = seen | (history.snapshot() if step == "poll" else behind.of_standby())
            read += history.read(Part(seen, until))
            assert all(until.has(each) for each in read)
            assert until.includes(seen)
            seen = until
    assert sorted(read) == sorted(history.ended)


@given(STEPS, st.data())
def test_what_lies_between_two_positions_is_what_the_polls_between_them_read(
    steps: list[object], data: st.DataObject
) -> None:
    history, polled = History(), [NOTHING]
    for step in steps:
        history.step(step)
        if step == "poll":
            polled.append(history.snapshot())
    first = data.draw(st.integers(0, len(polled) - 1))
    last = data.draw(st.integers(first, len(polled) - 1))
    cluster = Cluster(1, 1)
    positions = [Position(cluster, "0/0", seen) for seen in polled]
    parts = parts_between(positions[first], positions[last])
    found = [each for part in parts for each in history.read(part)]
    expected = [
        history.read(Part(*pair)) for pair in zip(polled[first:last], polled[first + 1 : last + 1], strict=True)
    ]
    assert sorted(found) == sorted(each for one in expected for each in one)


@given(st.integers(3, 99), st.sets(st.integers(3, 98)))
def test_a_snapshot_is_read_as_it_is_written(xmax: int, running: set[int]) -> None:
    seen = Seen(xmax, frozenset(each for each in running if each < xmax))
    assert Seen.parse(str(seen)) == seen
    position = Position(Cluster(7, 2), "A/1F", seen, 5, Seen(xmax + 1), (4, (("k", "a"), ("l", ""))), 3, NOTHING)
    assert Position.read(position.stored()) == position


@pytest.mark.parametrize("wrong", ["", "1:2", "9:5:", "1:5:7", "a:b:", "1:5:x", "4:5:3"])
def test_what_is_no_snapshot_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"snapshot|unpack|invalid literal"):
        Seen.parse(wrong)


K, L = (5, (("k", "1"),)), (6, (("k", "2"),))
S, T, U = Seen(5), Seen(8), Seen(9)


@pytest.mark.parametrize(
    ("start", "end", "parts"),
    [
        (None, {"seen": S}, [Part(NOTHING, S)]),
        ({"seen": S}, {"seen": T}, [Part(S, T)]),
        ({"seen": S}, {"seen": S, "until": T, "after": K}, [Part(S, T, None, K)]),
        ({"seen": S, "until": T, "after": K}, {"seen": S, "until": T, "after": L}, [Part(S, T, K, L)]),
        ({"seen": S, "until": T, "after": K}, {"seen": T}, [Part(S, T, K)]),
        (
            {"seen": S, "until": T, "after": K},
            {"seen": T, "until": U, "after": L},
            [Part(S, T, K), Part(T, U, None, L)],
        ),
        ({"seen": S, "until": T, "after": K}, {"seen": U}, [Part(S, T, K), Part(T, U)]),
    ],
)
def test_parts_of_bounded_polls(start: dict | None, end: dict, parts: list[Part]) -> None:
    def position(given: dict) -> Position:
        return Position(Cluster(1, 1), "0/0", **given)

    assert parts_between(None if start is None else position(start), position(end)) == parts


READ = Position(Cluster(1, 3), "0/50", Seen(20), 7)
NOW = Moment(Cluster(1, 3), False, Seen(30), 30, "0/60", None)


def at(**changes: object) -> Moment:
    return replace(NOW, **changes)


@pytest.mark.parametrize(
    ("start", "now", "outcome"),
    [
        ("earliest", NOW, READ),
        ("earliest", at(cluster=Cluster(1, 4), promoted="0/50"), Position(Cluster(1, 4), "0/50", Seen(20), 7)),
        ("earliest", at(cluster=Cluster(1, 4), promoted="0/4F"), "A standby was promoted"),
        ("earliest", at(cluster=Cluster(1, 4)), 'start="1/4 20:20:"'),
        ("earliest", at(cluster=Cluster(1, 5), promoted="0/50"), "A standby was promoted"),
        ("earliest", at(cluster=Cluster(1, 2)), "A standby was promoted"),
        ("earliest", at(cluster=Cluster(1, 2), is_standby=True), "has not replayed yet"),
        ("earliest", at(ended=Seen(19)), "has gone back: it is at transaction 19"),
        ("earliest", at(ended=Seen(30, frozenset([19]))), "has gone back"),
        ("earliest", at(lsn="0/4F"), "has gone back"),
        ("earliest", at(ended=Seen(19), is_standby=True), READ),
        ("earliest", at(cluster=Cluster(2, 3)), 'start="2/3 <snapshot> after 1/3 20:20:"'),
        ("1/4 20:20:", at(cluster=Cluster(1, 4)), Position(Cluster(1, 4), "0/50", Seen(20), 7)),
        ("1/4 19:19:", at(cluster=Cluster(1, 4)), "A standby was promoted"),
        ("2/3 25:25: after 1/3 20:20:", at(cluster=Cluster(2, 3)), Position(Cluster(2, 3), "0/60", Seen(25), 7)),
        ("2/3 25:25: after 1/3 21:21:", at(cluster=Cluster(2, 3)), "mean nothing in another"),
        ("2/3 25:25:", at(cluster=Cluster(2, 3)), "mean nothing in another"),
    ],
)
def test_where_a_poll_goes_on(start: str, now: Moment, outcome: Position | str) -> None:
    reader = Reader(target_of("outbox"))
    if isinstance(outcome, Position):
        assert begin(reader, READ, Start.parse(start), now) == outcome
    else:
        with pytest.raises((SourceChangedError, SourceUnavailableError)) as raised:
            begin(reader, READ, Start.parse(start), now)
        assert outcome in str(raised.value)
