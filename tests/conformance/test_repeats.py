"""The list of cases that `make test` leaves out on Postgres, and how it is made."""

import re
from pathlib import Path

import pytest
from transaction_shapes import WAITING, Sent, chosen, listed, plain, repeats

HERE = Path(__file__).parent
READ, WRITE = ("SELECT", "rollback"), ("SELECT", "INSERT", "commit")


@pytest.mark.parametrize("file", sorted(repeats()))
def test_a_case_that_is_left_out_is_there(file: str) -> None:
    """Otherwise somebody has renamed it, and it runs: `make repeats`."""
    known = set(re.findall(r"^def (\w+)", (HERE / file).read_text(), re.MULTILINE))
    assert {case.partition("[")[0] for case in repeats()[file]} <= known


def test_every_shape_is_shown_by_the_cheapest_cases_and_one_of_each_file() -> None:
    cases = {
        "a::reads": Sent({READ}, 3),
        "a::writes": Sent({WRITE}, 9),
        "a::reads again": Sent({READ}, 5),
        "a::both, in many words": Sent({READ, WRITE}, 1000),
    }
    assert chosen(cases) == {"a::reads", "a::writes"}
    alone = {"a::deletes": Sent({("DELETE", "commit")}, 10000)}
    assert chosen(cases | alone) == {"a::reads", "a::writes", "a::deletes"}
    elsewhere = {"b::reads": Sent({READ}, 5), "b::reads and writes": Sent({READ, WRITE}, 50)}
    assert chosen(cases | elsewhere) == {"a::reads", "a::writes", "b::reads and writes"}
    waiting = f"{WAITING}::for a commit"
    assert chosen(cases | {waiting: Sent({READ}, 5)}) == {"a::reads", "a::writes", waiting}
    assert (HERE / WAITING).exists()


def test_a_shape_has_no_values() -> None:
    one = "INSERT INTO a (b, c)  VALUES (%(b__0)s, %(c__0)s)"
    two = "INSERT INTO a (b, c) VALUES (%(b__0)s, %(c__0)s), (%(b__1)s, %(c__1)s)"
    assert plain(one) == plain(two) == "INSERT INTO a (b, c) VALUES (?)"
    assert plain("WHERE a IN (%(a_1_1)s, %(a_1_2)s)") == plain("WHERE a IN (%(a_1)s)") == "WHERE a IN (?)"


def test_the_list_is_sorted_by_file() -> None:
    assert listed({"b.py::two[x]", "a.py::one", "b.py::one"}) == (
        '{\n "a.py": [\n  "one"\n ],\n "b.py": [\n  "one",\n  "two[x]"\n ]\n}\n'
    )
