"""Three tables of a REST catalog, of a process that dies before or after each of its effects, there and in Postgres: in
between readers see one checkpoint in all of them, and what is repeated leaves no difference."""

import pytest
from marts import values

from tidegate import IcebergSink
from tidegate.iceberg import rest as one_commit
from tidegate.iceberg import work
from tidegate.testing.effects import Crash, Effects

NAMES = ("one", "two", "latest")


@pytest.fixture
def effects(monkeypatch):
    counted = Effects()
    for module, name in ((one_commit, "commit_together"), (work, "carry_out_in_database")):
        effect = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, n=name, e=effect: counted.around(n, lambda: e(*given)))
    return counted


@pytest.fixture
def of(mart, rest, space):
    modes = {"one": "append", "two": "append", "latest": "latest"}
    return mart(**{name: IcebergSink(f"{space}.{name}", mode, catalog="lake") for name, mode in modes.items()})


def shown(rest, space):
    """The one checkpoint that all tables show."""
    found = {name: rest.values(f"{space}.{name}") for name in NAMES}
    assert (found["two"], found["latest"]) == (found["one"], found["one"][-1:])
    return found["one"]


def die(effects, do, at, before):
    """Whether it came there."""
    effects.die(at, before)
    try:
        do()
    except Crash:
        return True
    finally:
        effects.die(None)
    return False


def test_a_commit_that_dies_anywhere(of, rest, space, effects):
    of.take(**dict.fromkeys(NAMES, values(1)))
    number, at, deaths = 1, 0, 0
    while at == 0 or deaths:
        deaths = 0
        for before in (True, False):
            id_, number = of.finalize(**dict.fromkeys(NAMES, values(number + 1))), number + 1
            if died := die(effects, lambda id_=id_: of.coordinator.notify(id_), at, before):
                assert shown(rest, space) in ([*range(1, number)], [*range(1, number + 1)])
                of.coordinator.notify(id_)
            deaths += died
            assert shown(rest, space) == [*range(1, number + 1)]
        at += 1
    assert at == 5  # one commit for all, and a record of each


def test_a_restore_that_dies_anywhere(of, rest, space, effects):
    for number in range(1, 4):
        of.take(**dict.fromkeys(NAMES, values(number)))
    at, deaths = 0, 0
    while at == 0 or deaths:
        deaths = 0
        for back, before in ((1, True), (3, False)):
            if died := die(effects, lambda back=back: of.restore(back), at, before):
                assert shown(rest, space) in ([1], [1, 2, 3])
                of.restore(back)
            deaths += died
            assert shown(rest, space) == [*range(1, back + 1)]
        at += 1
    assert at == 5
