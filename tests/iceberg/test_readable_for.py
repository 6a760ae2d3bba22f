"""Who has opened a table goes on reading it for `readable_for` after it was replaced. Then its files are deleted."""

from pathlib import Path

import pytest
from iceberg_tables import duck, files_below
from marts import values
from pyiceberg.table import StaticTable
from sqlalchemy import func, select

from tidegate import IcebergSink
from tidegate.iceberg import garbage
from tidegate.iceberg.places import location_now
from tidegate.iceberg.reach import files_of
from tidegate.protocol.facts.errors import PipelineDefinitionError


def opened(mart, readable_for):
    """A table that was opened before others replaced it: its metadata file, and all files that it refers to."""
    of = mart(out=IcebergSink("db.out", "latest", readable_for=readable_for), retained=1)
    of.take(out=values(1))
    location = location_now(of.sinks["out"].name)
    found = files_of(location)
    for number in range(2, 9):
        of.take(out=values(number))
    return of, location, {Path(each.removeprefix("file://")) for each in (*found.data, *found.metadata)}


def test_a_table_that_was_opened_before_it_was_replaced_is_readable(mart):
    of, location, files = opened(mart, "1 h")
    of.coordinator.cleaning.clean()
    assert all(each.exists() for each in files)
    assert StaticTable.from_metadata(location).scan().to_arrow()["v"].to_pylist() == [1]
    with duck().cursor() as cursor:
        assert cursor.execute("SELECT v FROM iceberg_scan(?)", [location]).fetchall() == [(1,)]
    assert of.coordinator.cleaning.plan().garbage == ()


def test_afterwards_commits_delete_it(mart):
    _, _, files = opened(mart, "0 s")
    assert not any(each.exists() for each in files)


def test_where_no_commit_comes_a_cleaning_deletes_it(mart):
    of, _, files = opened(mart, "1 h")
    before = files_below(of.sinks["out"].root)
    assert all(each.exists() for each in files)
    object.__setattr__(of.sinks["out"], "readable_for", "0 s")  # as if the hour was over
    planned = {each.path for each in of.coordinator.cleaning.plan().garbage}
    assert planned >= {str(each.relative_to(of.sinks["out"].root)) for each in files}
    of.coordinator.cleaning.clean()
    assert before - files_below(of.sinks["out"].root) == planned
    assert of.coordinator.cleaning.plan().garbage == ()


def test_the_time_counts_from_the_end_of_a_commit(mart, monkeypatch):
    """Until then readers open the former table. A commit may wait long for another transaction."""
    of = mart(out=IcebergSink("db.out", "latest", readable_for="1 h"), retained=1)
    of.take(out=values(1))
    location = location_now(of.sinks["out"].name)
    data = files_of(location).data
    of.take(out=values(2))
    monkeypatch.setattr(garbage, "NOW", in_hours(1))  # as if the commit had waited for an hour
    of.take(out=values(3))
    assert StaticTable.from_metadata(location).scan().to_arrow()["v"].to_pylist() == [1]
    monkeypatch.setattr(garbage, "NOW", in_hours(2))
    of.take(out=values(4))
    assert not any(Path(each.removeprefix("file://")).exists() for each in data)


def in_hours(hours):
    """The clock of the database, for those who delete files."""
    return select(func.extract("epoch", func.clock_timestamp()) + 3600 * hours)


def test_a_duration_needs_a_unit():
    with pytest.raises(PipelineDefinitionError, match=r"IcebergSink\('db.out'\): readable_for: '5' is not a duration"):
        IcebergSink("db.out", readable_for="5")
