"""A definition's fingerprint is the same until something changes that its columns, types or expectations depend on."""

import subprocess
import sys

import pytest

from tidegate.pipeline.fingerprint import fingerprint
from tidegate.pipeline.graph import compile_graph
from tidegate.project.registered import load_pipeline

SHOP = """
from functools import partial
from tidegate import FileSource, ParquetSink, Pipeline, count, expect, suite, sum_

COLUMN = "amount"
seen = []

class Frame:
    def describe(self):
        raise AssertionError("a DataFrame would run a Spark job")

lookup = Frame()

def helper(rows):
    return rows.dropna().join(lookup) if rows else helper(rows)

def cleaned(rows, least):
    seen.append(least)
    return helper(rows).where(rows[COLUMN] > least)

shop = Pipeline("shop", parallelism=2)
orders = shop.source("orders", FileSource("landing", schema="customer string, amount int"))
big = orders.transform(partial(cleaned, least=3)).transform(lambda rows: rows.where("customer in ('a', 'b')"))
judged = suite("known", expect("column_values_to_be_in_set", column="customer", value_set=["a", "b"]))
big.key_by("customer").aggregate("n", n=count(), expect=judged).sink("t", ParquetSink("tables/t"))
"""

CHANGES = {
    "a helper's body": ("rows.dropna()", "rows.distinct()"),
    "a constant of the module": ('"amount"', '"customer"'),
    "an argument of a partial": ("least=3", "least=4"),
    "a text in a lambda": ("in ('a', 'b')", "in ('a', 'c')"),
    "a source's schema": ("amount int", "amount bigint"),
    "an expectation's values": ('value_set=["a", "b"]', 'value_set=["a"]'),
    "an aggregate": ("n=count()", 'n=sum_("amount")'),
    "the key": ('key_by("customer")', 'key_by("customer", "amount")'),
}
SAME = {
    "a comment": ("seen = []", "seen = []  # by calls"),
    "lines that moved": ("def helper", "\n\n\ndef helper"),
    "what a run has changed": ("seen = []", "seen = [1]"),
    "how many subtasks": ("parallelism=2", "parallelism=3"),
}


@pytest.fixture
def taken(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def take(text):
        (tmp_path / "fingerprinted_shop.py").write_text(text)
        monkeypatch.delitem(sys.modules, "fingerprinted_shop", raising=False)
        return fingerprint(compile_graph(load_pipeline("fingerprinted_shop:shop")))

    return take


@pytest.mark.parametrize("what", CHANGES)
def test_what_matters_changes_it(what, taken):
    assert taken(SHOP) != taken(SHOP.replace(*CHANGES[what]))


@pytest.mark.parametrize("what", SAME)
def test_what_does_not_matter_does_not(what, taken):
    assert taken(SHOP) == taken(SHOP.replace(*SAME[what]))


def test_another_process_finds_the_same(taken, tmp_path):
    here = taken(SHOP)
    asked = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from fingerprinted_shop import shop\n"
        "from tidegate.pipeline.fingerprint import fingerprint\n"
        "from tidegate.pipeline.graph import compile_graph\n"
        "print(fingerprint(compile_graph(shop)))\n"
    )
    there = subprocess.run([sys.executable, "-c", asked, tmp_path], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here
