"""Pytest plugin of `make repeats`: which cases of the conformance tests send Postgres what no other case does.

The shape of a transaction is its statements without their values, in their order, whether it was committed, and whether
another one was open when it began. Of all cases on Postgres, as few are chosen as show every shape, at the least cost
in statements, and one of each file. The others repeat them with other data: `make test` runs those on the store in
memory alone, `make test-long` on both. A case that is new, or was renamed, is on no list and runs.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

CASES = Path(__file__).parents[1] / "conformance"
LIST = CASES / "repeats.json"
#: What these show is who waits for whom, and no statement says so: all of them stay.
WAITING = "test_concurrency.py"
Shape = tuple[str, ...]


@dataclass
class Sent:
    """What one case has sent."""

    shapes: set[Shape] = field(default_factory=set)
    statements: int = 0


def repeats() -> dict[str, list[str]]:
    """The cases that `make test` leaves out, by file."""
    known: dict[str, list[str]] = json.loads(LIST.read_text())
    return known


def chosen(cases: Mapping[str, Sent]) -> set[str]:
    """Of these cases, a few that show every shape, and from a file that has none of these the one that shows most."""
    left = set[Shape]().union(*(sent.shapes for sent in cases.values()))
    found = {name for name in cases if _file_of(name) == WAITING}
    while left:
        best = max(sorted(cases), key=lambda name: len(cases[name].shapes & left) / (cases[name].statements + 1))
        found.add(best)
        left -= cases[best].shapes
    for file in sorted({_file_of(name) for name in cases} - {_file_of(name) for name in found}):
        found.add(
            max((name for name in sorted(cases) if _file_of(name) == file), key=lambda name: len(cases[name].shapes))
        )
    return found


def _file_of(name: str) -> str:
    return name.partition("::")[0]


def is_on_postgres(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return item.path.parent == CASES and call is not None and call.params.get("store") == "postgres"


def plain(statement: str) -> str:
    """Without the number of values in a list, and of rows in an insertion."""
    statement = re.sub(r"%\(\w+\)s(?:::\w+(?:\[\])?)?", "?", " ".join(statement.split()))
    statement = re.sub(r"\?(?:, \?)+", "?", statement)
    return re.sub(r"\(\?\)(?:, \(\?\))+", "(?)", statement)


class Recorder:
    def __init__(self) -> None:
        self.cases: dict[str, Sent] = {}
        self._now = Sent()
        self._open: dict[Any, list[str]] = {}  # by connection
        event.listen(Engine, "before_cursor_execute", self._sends)
        event.listen(Engine, "commit", lambda connection: self._ends(connection, "commit"))
        event.listen(Engine, "rollback", lambda connection: self._ends(connection, "rollback"))

    def begin(self, name: str) -> None:
        """What is open still belongs to the case before: a thread that listens has no end."""
        self._now.shapes.update(map(tuple, self._open.values()))
        self._now = self.cases[name] = Sent()
        self._open.clear()

    def _sends(self, connection: Connection, cursor: Any, statement: str, *others: Any) -> None:
        self._now.statements += 1
        statements = self._open.get(one := connection.connection.dbapi_connection)
        if statements is None:
            statements = self._open[one] = ["beside another"] if self._open else []
        if plain(statement) not in statements[-1:]:
            statements.append(plain(statement))

    def _ends(self, connection: Connection, how: str) -> None:
        if statements := self._open.pop(connection.connection.dbapi_connection, None):
            self._now.shapes.add((*statements, how))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RECORDER] = Recorder()


_RECORDER = pytest.StashKey[Recorder]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if is_on_postgres(item) and item.get_closest_marker("long") is None]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    item.config.stash[_RECORDER].begin(f"{item.path.name}::{item.name}")
    return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """The list is written if nothing has failed."""
    cases = session.config.stash[_RECORDER].cases
    if exitstatus == pytest.ExitCode.OK and len(cases) == len(session.items) > 0:
        LIST.write_text(listed(cases.keys() - chosen(cases)))


def listed(names: Collection[str]) -> str:
    by_file: dict[str, list[str]] = {}
    for name in sorted(names):
        file, _, case = name.partition("::")
        by_file.setdefault(file, []).append(case)
    return f"{json.dumps(by_file, indent=1, ensure_ascii=False)}\n"
