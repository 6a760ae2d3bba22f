"""Transactions that commit in any order, and a reader that dies and is restored: each row is read once. Mistakes that
somebody could make there, each planted, and each noticed."""

from collections.abc import Callable
from dataclasses import replace
from operator import ge, gt, le, lt
from typing import Any

import pytest
from marts import Server
from outbox_lives import live

from tidegate.postgres_source import servers, snapshots, statements, table_queries
from tidegate.postgres_source.positions import Position
from tidegate.protocol.facts.errors import CheckpointError

SEEDS = range(1, 7)


def live_all(server: Server) -> None:
    for seed in SEEDS:
        server.do("TRUNCATE public.outbox")
        live(server, seed)


def test_each_row_is_read_once(outbox: Server) -> None:
    live_all(outbox)


def by_the_largest_id(original: Any) -> Any:
    """As if all below the largest transaction that was seen had ended."""
    return lambda before, after: replace(original(before, after), late=())


def as_if_nothing_was_running(original: Any) -> Any:
    def moment(connection: Any) -> Any:
        found = original(connection)
        return replace(found, ended=snapshots.Seen(found.ended.xmax))

    return moment


def without_those_that_still_run(original: Any) -> Any:
    return lambda before, after: replace(original(before, after), running=())


def one_too_many(original: Any) -> Any:
    def ended(before: Any, after: Any) -> Any:
        found = original(before, after)
        return replace(found, high=found.high + 1)

    return ended


def one_too_few(original: Any) -> Any:
    def ended(before: Any, after: Any) -> Any:
        found = original(before, after)
        return replace(found, low=found.low + 1)

    return ended


def from_xmin(original: Any) -> Any:
    """As if what was seen ended where the first transaction was running."""
    return lambda before, after: replace(original(before, after), late=(), low=before.xmin)


def including_the_start(original: Any) -> Any:
    return lambda self, table: [_closed(each) for each in original(self, table)]


def _closed(bound: Any) -> Any:
    return ge(bound.left, bound.right) if bound.operator is gt else bound


def excluding_the_end(original: Any) -> Any:
    return lambda self, table: [
        lt(each.left, each.right) if each.operator is le else each for each in original(self, table)
    ]


def by_transactions_alone(original: Any) -> Any:
    """The place of a row forgets its key, as a cut between transactions would."""
    return lambda key, row: (original(key, row)[0] - 1, original(key, row)[1])


def with_a_new_snapshot(original: Any) -> Any:
    """What is read goes up to what is there by now."""

    def ranges(self: Any, table: Any, names: Any, start: Any, end: Any) -> Any:
        now, until = servers.moment(self._connection), Position.read(end)
        if until.until is None:
            until = replace(until, seen=until.seen | now.ended)
        return original(self, table, names, start, until.stored())

    return ranges


def forgetting_the_rest(original: Any) -> Any:
    return lambda self, last, until, rows, left, lsn: self.ended(until, rows, lsn)


PLANTED: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "the largest id instead of a snapshot": (statements, "ended_between", by_the_largest_id),
    "the list of running transactions is ignored": (servers, "moment", as_if_nothing_was_running),
    "those that run on are read": (statements, "ended_between", without_those_that_still_run),
    "xmax is included": (statements, "ended_between", one_too_many),
    "the former xmax is left out": (statements, "ended_between", one_too_few),
    "it goes on from xmin": (statements, "ended_between", from_xmin),
    "the place where it goes on is read again": (statements.PartStatements, "_bounds", including_the_start),
    "the place where it ends is left out": (statements.PartStatements, "_bounds", excluding_the_end),
    "a poll is cut at another place than it says": (table_queries, "_place", by_transactions_alone),
    "a retry takes a new snapshot": (table_queries.TableQueries, "ranges", with_a_new_snapshot),
    "the rest of a part is forgotten": (Position, "to", forgetting_the_rest),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_noticed(mistake: str, outbox: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, planted = PLANTED[mistake]
    monkeypatch.setattr(where, name, planted(getattr(where, name)))
    with pytest.raises((AssertionError, CheckpointError, RuntimeError, ValueError)):
        live_all(outbox)
