"""Tables of another catalog: after the commit, once, whoever is stopped and overtaken."""

import pyarrow as pa
import pytest
from marts import values
from pyiceberg.catalog.sql import SqlCatalog

import tidegate
from tidegate import IcebergSink
from tidegate.iceberg.places import location_now
from tidegate.ports import SinkCommit
from tidegate.protocol.facts.errors import MissingConnectionError, SinkError


@pytest.fixture(autouse=True)
def other(lake, home, other_catalog):
    return Other(f"sqlite:///{home}/catalog.db")


class Other:
    def __init__(self, uri):
        self.uri = uri

    def rows(self, name):
        catalog = SqlCatalog("other", uri=self.uri)
        try:
            return catalog.load_table(name).scan().to_arrow().to_pylist()
        finally:
            catalog.close()

    def values(self, name):
        return sorted(row["v"] for row in self.rows(name))

    def do(self, name, change):
        catalog = SqlCatalog("other", uri=self.uri)
        change(catalog.load_table(name))
        catalog.close()


def append(*numbers):
    return lambda table: table.append(pa.table({"v": pa.array(numbers, pa.int64())}))


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_checkpoints_restores_and_reading(mart, other, mode):
    of = mart(out=IcebergSink("db.out", mode, catalog="other", readable_for="0 s"), retained=3)
    assert of.sinks["out"].commits is SinkCommit.AFTER_THE_COMMIT
    for number in range(1, 7):
        of.take(out=values(number))
        of.coordinator.clean()
    shown = list(range(1, 7)) if mode == "append" else [6]
    assert other.values("db.out") == shown
    of.restore(5)
    assert other.values("db.out") == ([1, 2, 3, 4, 5] if mode == "append" else [5])
    of.restore()
    assert other.values("db.out") == shown
    found = tidegate.read("mart", "out", checkpoint=5).arrow()["out"]["v"].to_pylist()
    assert sorted(found) == ([1, 2, 3, 4, 5] if mode == "append" else [5])
    metadata = [path for path in of.sinks["out"].staging().list("metadata") if "metadata.json" not in path]
    assert len(metadata) < 25


def test_a_commit_that_is_not_recorded_is_found_in_the_table(mart, other, monkeypatch):
    of = mart(out=IcebergSink("db.out", catalog="other"))
    of.take(out=values(1))
    id_ = of.finalize(out=values(2))
    with monkeypatch.context() as patched:
        patched.setattr("tidegate.iceberg.work.carry_out_in_database", died)
        with pytest.raises(SinkError, match="died"):
            of.coordinator.notify(id_)
    assert other.values("db.out") == [1, 2]
    of.coordinator.notify(id_)
    assert other.values("db.out") == [1, 2]
    assert of.take(out=values(3)) == 3
    assert other.values("db.out") == [1, 2, 3]


def died(*given):
    raise SinkError("died")


def test_others_commits_stay_or_are_named(mart, other):
    of = mart(out=IcebergSink("db.out", catalog="other"), latest=IcebergSink("db.latest", "latest", catalog="other"))
    of.take(out=values(1), latest=values(1))
    other.do("db.out", append(10))
    of.take(out=values(2), latest=values(2))
    assert other.values("db.out") == [1, 2, 10]
    other.do("db.latest", append(10))
    id_ = of.finalize(out=values(3), latest=values(3))
    with pytest.raises(SinkError, match="another writer has committed snapshot"):
        of.coordinator.notify(id_)
    assert other.values("db.latest") == [2, 10]


def test_a_catalog_that_is_not_configured_is_named(mart, lake):
    sink = IcebergSink("db.out", catalog="nowhere")
    assert sink.unstorable(pa.schema({"v": pa.int64()})) == []
    with pytest.raises(MissingConnectionError, match="PYICEBERG_CATALOG__NOWHERE__URI"):
        location_now(sink.name)
