"""Mistakes that somebody could make in PostgresSink, each planted, and each noticed by what a table shows then."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from commits import Attempt
from marts import Server, values
from sqlalchemy import func, select

from tidegate import PostgresSink
from tidegate.ports import Branch, StageContext, StateHandle
from tidegate.postgres_sink import databases, positions
from tidegate.postgres_sink import replace as replacing
from tidegate.postgres_sink import sink as sinks
from tidegate.postgres_sink.append import Append, RewindAppended
from tidegate.postgres_sink.databases import carry_out
from tidegate.postgres_sink.journal import Journal
from tidegate.postgres_sink.replace import Replace
from tidegate.postgres_sink.tables import quoted
from tidegate.postgres_sink.upsert import Upsert
from tidegate.protocol.facts.errors import SinkError, SupersededAttemptError
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.applied import Applied
from tidegate.protocol.steps.sink_marks import WHOLE

BEFORE, AFTER = Branch(((0, 1),)), Branch(((0, 2),))


@dataclass
class Table:
    """A table `t` in another database, and its sink."""

    base: Server
    mode: Any

    def __post_init__(self) -> None:
        key = {"key": "k"} if self.mode == "upsert" else {}
        self.sink = PostgresSink("t", mode=self.mode, connection="marts", **key).placed("mart", "t")
        self.sink.mark(Owner("mart", "t", "here"))

    def staged(self, id_: int, *rows: int, whole: bool = False) -> list[StateHandle]:
        table = pa.table({"k": pa.array(["a", "b"][: len(rows)]), "v": pa.array(rows, pa.int64())})
        table = table if self.mode == "upsert" else values(*rows)
        found = self.sink.writer().stage(table, StageContext(id_, 0, 1, "u"))
        return [replace(handle, details={WHOLE: True} if whole else {}) for handle in found]

    def take(self, id_: int, *rows: int, whole: bool = False) -> None:
        self.sink.commit(id_, self.staged(id_, *rows, whole=whole), Attempt())

    def shows(self) -> list[int]:
        return self.base.rows("SELECT v FROM t ORDER BY v")


# -- what happens to a table


def loaded_rows_are_lost(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between their loading and the statement that takes them over."""
    owner, name = {"append": (Append, "run"), "upsert": (Upsert, "run"), "replace": (sinks, "fill")}[table.mode]
    original = getattr(owner, name)

    def after_a_crash(*given: Any) -> Any:
        for each in table.base.loaded_tables():
            table.base.do(f"TRUNCATE tidegate_sinks.{each}")
        return original(*given)

    monkeypatch.setattr(owner, name, after_a_crash)
    with pytest.raises(SinkError, match=r"0 rows for table .* were loaded, and 1 were staged"):
        table.take(1, 5)


def two_processes_commit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same checkpoint, and one is late."""
    attempt, staged = Attempt(), table.staged(1, 5)
    one, late = (table.sink.prepare(1, staged) for _ in range(2))
    carry_out("marts", one, table.sink.target, attempt)
    if table.mode == "upsert":
        table.sink.commit(2, table.staged(2, 6), attempt)
    carry_out("marts", late, table.sink.target, attempt)
    assert table.shows() == [6 if table.mode == "upsert" else 5]


def overtaken(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a newer attempt, since it asked whether it was the newest."""
    late, newer = Attempt(), Attempt()
    table.sink.commit(1, table.staged(1, 5), newer)
    monkeypatch.setattr(late, "confirm", lambda: None)
    with pytest.raises(SupersededAttemptError):
        table.sink.commit(2, table.staged(2, 6), late)


def asked_while_held(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether an attempt is the newest is asked when nobody else can change the table any more."""
    attempt = Attempt()
    held = "SELECT count(*) FROM pg_locks WHERE relation = 'tidegate_sinks.positions'::regclass AND mode = "
    seen: list[Any] = []
    monkeypatch.setattr(attempt, "confirm", lambda: seen.append(table.base.rows(f"{held}'RowShareLock'")))
    table.sink.commit(1, table.staged(1, 5), attempt)
    assert seen == [[1]]


def restored_and_undone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.take(1, 5)
    table.take(2, 6)
    with_both = table.shows()
    table.sink.rewind(1, BEFORE, (), Attempt())
    assert table.shows() == [5]
    table.sink.rewind(2, AFTER, (), Attempt())
    assert table.shows() == with_both


def given_all_rows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.take(1, 5, 6)
    table.take(2, 7, whole=True)
    assert table.shows() == [7]


def granted_meanwhile(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the successor is filled, which does not have that grant."""
    table.take(1, 5)
    participant = table.sink.prepare(2, table.staged(2, 6))
    table.base.do("GRANT SELECT ON t TO PUBLIC")
    with pytest.raises(SinkError, match="were changed while its successor was filled"):
        carry_out("marts", participant, table.sink.target, Attempt())


# -- mistakes


def as_many_as_there_are(original: Any) -> Any:
    """Rows of `loaded`, which is the last argument, and the statements or the connection the one before."""

    def counted(*given: Any) -> Any:
        *others, loaded = given
        asked = select(func.count()).select_from(loaded.table)
        place = next(each for each in others if hasattr(each, "execute"))
        rows = place.query(asked)[0][0] if hasattr(place, "query") else place.execute(asked).scalar_one()
        return original(*others, replace(loaded, rows=rows))

    return counted


def as_many_as_there_are_to_upsert(original: Any) -> Any:
    return lambda self, statements, loaded, journal: as_many_as_there_are(
        lambda place, counted: original(self, place, counted, journal)
    )(statements, loaded)


def at_zero(original: Any) -> Any:
    return lambda *given: replace(original(*given), applied=Applied())


def of_nobody(original: Any) -> Any:
    return lambda statements, target, attempt: original(statements, target, None)


def away_alone(original: Any) -> Any:
    """The rows that go away, and not those that come back."""

    def move(self: Any, statements: Any, source: Any, into: Any, which: Any) -> None:
        if source.schema != "tidegate_sinks":
            original(self, statements, source, into, which)

    return move


def whatever_it_is_now(original: Any) -> Any:
    def swap(self: Any, statements: Any, filled: Any) -> None:
        ((state,),) = statements.query(replacing._STATE, {"name": quoted(self.target)})
        original(self, statements, replace(filled, state=state))

    return swap


def nothing(original: Any) -> Any:
    return lambda *given: None


@dataclass
class Mistake:
    """In the functions of these names, noticed by what happens to a table of a mode."""

    places: tuple[tuple[Any, str], ...]
    make: Callable[[Any], Any]
    mode: str
    happens: Callable[[Table, pytest.MonkeyPatch], None]


LOCK = ((positions, "lock"),)
MISTAKES = {
    "appended rows are not counted": Mistake(((Append, "_add"),), as_many_as_there_are, "append", loaded_rows_are_lost),
    "upserted rows are not counted": Mistake(
        ((Upsert, "_take_over"),), as_many_as_there_are_to_upsert, "upsert", loaded_rows_are_lost
    ),
    "rows of a successor are not counted": Mistake(
        ((sinks, "fill"),), as_many_as_there_are, "replace", loaded_rows_are_lost
    ),
    "rows are appended without the key of their checkpoint": Mistake(LOCK, at_zero, "append", two_processes_commit),
    "rows are upserted without the key of their checkpoint": Mistake(LOCK, at_zero, "upsert", two_processes_commit),
    "an attempt that was overtaken changes the table": Mistake(
        (*LOCK, (databases, "lock")), of_nobody, "append", overtaken
    ),
    "the position is not locked before the attempt is asked": Mistake(
        ((databases, "lock"),), nothing, "append", asked_while_held
    ),
    "the journal is not written": Mistake(((Journal, "note"),), nothing, "upsert", restored_and_undone),
    "what a restore takes away is gone": Mistake(
        ((RewindAppended, "_move"),), away_alone, "append", restored_and_undone
    ),
    "keys that are not among all rows stay": Mistake(((Upsert, "_remove_others"),), nothing, "upsert", given_all_rows),
    "a table is replaced by a successor of what it was": Mistake(
        ((Replace, "_swap"),), whatever_it_is_now, "replace", granted_meanwhile
    ),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_planted_mistake_is_noticed(there: Server, home: Any, monkeypatch: pytest.MonkeyPatch, sentence: str) -> None:
    mistake = MISTAKES[sentence]
    for owner, name in mistake.places:
        monkeypatch.setattr(owner, name, mistake.make(getattr(owner, name)))
    table = Table(there, mistake.mode)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        mistake.happens(table, monkeypatch)


@pytest.mark.parametrize("mistake", {(m.mode, m.happens.__name__): m for m in MISTAKES.values()}.values())
def test_and_by_nothing_else(there: Server, home: Any, monkeypatch: pytest.MonkeyPatch, mistake: Mistake) -> None:
    mistake.happens(Table(there, mistake.mode), monkeypatch)
