"""After many checkpoints a table costs what it cost at first: its metadata has not grown, and nothing is left over."""

import os
from statistics import median
from time import process_time

import pytest
from iceberg_tables import files_below

from tidegate import IcebergSink
from tidegate.iceberg.garbage import referenced
from tidegate.iceberg.places import location_now


@pytest.mark.parametrize("mode", ["append", "latest"])
@pytest.mark.parametrize("checkpoints", [60, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_table_of_many_checkpoints(lake, mart, mode, checkpoints):
    of = mart(out=IcebergSink("db.out", mode, readable_for="0 s"), retained=5)
    sink, took, sizes, files = of.sinks["out"], [], [], []
    for number in range(checkpoints):
        id_ = of.validated()
        began = process_time()
        of.coordinator.finalize(id_)
        took.append(process_time() - began)
        of.coordinator.notify(id_)
        if number % 20 == 19:
            of.coordinator.clean()
            location = location_now(sink.name)
            sizes.append(os.path.getsize(location.removeprefix("file://")))
            files.append(len(sink.staging().list("metadata")))
    assert sorted(lake.values("db.out"))[-1] == checkpoints
    assert len(lake.values("db.out")) == (checkpoints if mode == "append" else 1)
    assert median(took[-20:]) < 2 * median(took[10:30])
    assert max(sizes[1:]) < 1.3 * sizes[1]
    assert max(files[1:]) < 2 * files[1]
    found = sorted(path for path in files_below(sink.root) if path.startswith(("data/", "metadata/")))
    assert set(found) == set(referenced(sink.name, sink.root, found))
