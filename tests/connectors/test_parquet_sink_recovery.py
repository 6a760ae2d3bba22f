"""A table whose pipeline's database was lost: which numbers it carries, and a commit that has long happened."""

import os
import shutil

import pytest
from commits import Attempt, commit
from parquet_sinks import stage, tree, visible

from tidegate.ports import NumberedSink
from tidegate.protocol.facts.branches import Branch
from tidegate.sinks.parquet import ParquetSink

MODES = pytest.mark.parametrize("mode", ["append", "latest"])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))


@MODES
def test_a_table_that_is_not_there_carries_no_numbers(mode):
    sink = ParquetSink("t", mode)
    assert isinstance(sink, NumberedSink)
    assert sink.numbers() == (0, 0)


@MODES
def test_staging_versions_partitions_and_what_was_withdrawn_carry_ids_and_attempts_their_numbers(mode):
    sink = ParquetSink("t", mode)
    commit(sink, 4, [stage(sink, 4, 1)])
    assert sink.numbers() == (4, 0)
    if mode == "append":
        sink.rewind(2, Branch(((1, 2),)), [], Attempt())
        assert (sink.withdrawn(), sink.numbers()) == ([4], (4, 0))
    stage(sink, 7, 2)
    os.makedirs(f"{sink.root}/_committing/12")
    os.makedirs(f"{sink.root}/_committing/chk-9")
    os.makedirs(f"{sink.root}/_staging/other")
    assert sink.numbers() == (7, 12)


@MODES
def test_a_commit_that_has_happened_is_repeated_though_its_staged_files_are_gone(mode):
    sink = ParquetSink("t", mode)
    staged = [stage(sink, 1, 1), stage(sink, 1, 10, subtask=1)]
    commit(sink, 1, staged)
    shutil.rmtree(f"{sink.root}/_staging", ignore_errors=True)
    before = tree(sink)
    commit(sink, 1, staged)
    assert (visible(sink), tree(sink)) == ([1, 10], before)
