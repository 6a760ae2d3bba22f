"""The names that libraries do not promise to keep: the installed releases have them, and one that is gone is found."""

import importlib.metadata

import pytest
from private_names import OTHERS, shortcuts

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.quality.importing import load_great_expectations
from tidegate.settings import SHORTCUTS, Settings
from tidegate.settings.shortcuts import Shortcut, missing_names


def test_the_installed_releases_have_every_name_that_we_rest_on():
    load_great_expectations()
    lacking = [f"{one.word}: {name}" for one in shortcuts() for name in missing_names(one)]
    for name, where in OTHERS.items():
        library = {"airflow": "apache-airflow"}.get(top := name.partition(":")[0].partition(".")[0], top)
        if missing_names(Shortcut(where, library, (name,), "it is mended there")):
            lacking.append(f"{where}: {library} {importlib.metadata.version(library)} has no {name}")
    assert lacking == []


def test_every_shortcut_can_be_left_out_by_its_word():
    assert {one.word for one in shortcuts()} == SHORTCUTS


@pytest.mark.parametrize(
    "name", ["pyspark:SparkContext._gone", "pyspark.gone:anything", "pyspark.sql:SparkSession()._gone"]
)
def test_a_shortcut_whose_name_is_gone_is_not_taken_and_the_log_says_so_once(name, caplog):
    gone = Shortcut("reading", "pyspark", ("pyspark:SparkContext", name), f"without {name} Spark does it")
    assert [gone.is_taken(), gone.is_taken()] == [False, False]
    version = importlib.metadata.version("pyspark")
    assert caplog.messages == [f"pyspark {version} has no {name} any more, so without {name} Spark does it."]


def test_the_setting_says_which_are_taken(monkeypatch):
    there = Shortcut("reading", "pyspark", ("pyspark:SparkContext",), "Spark reads")
    for said, taken in ((None, True), ("", True), ("session, reading", True), ("session", False), ("none", False)):
        monkeypatch.delenv("TIDEGATE_SHORTCUTS", raising=False)
        if said is not None:
            monkeypatch.setenv("TIDEGATE_SHORTCUTS", said)
        assert there.is_taken() is taken, said
    assert Settings.from_environment({}).shortcuts == SHORTCUTS
    monkeypatch.setenv("TIDEGATE_SHORTCUTS", "reeding")
    with pytest.raises(ConfigurationError, match=r"names reeding, which is no shortcut\. Name some of reading"):
        there.is_taken()
