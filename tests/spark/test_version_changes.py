"""What Spark finds to have changed between versions of each format, read from their copies."""

import gzip
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from tidegate import FileSource
from tidegate.ports import SourceContext
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
VERSIONS: list[Rows] = [
    [{"k": 1, "j": "a", "v": 1.5}, {"k": 1, "j": "b", "v": None}, {"k": None, "j": None, "v": 3.0}],
    [{"k": 1, "j": "a", "v": 1.5}, {"k": 1, "j": "b", "v": 2.0}, {"k": 2, "j": "a", "v": 4.0}],
    [{"k": 2, "j": "a", "v": 4.0}, {"k": 1, "j": "b", "v": 2.0}, {"k": None, "j": None, "v": float("nan")}],
    [{"k": None, "j": None, "v": float("nan")}, {"k": 2, "j": "a", "v": 4.0}],
]
#: By version, what has changed in it.
CHANGES = [
    [(1, "a", 1.5, "insert"), (1, "b", None, "insert"), (None, None, 3.0, "insert")],
    [(1, "b", 2.0, "update"), (2, "a", 4.0, "insert"), (None, None, 3.0, "delete")],
    [(1, "a", 1.5, "delete"), (None, None, float("nan"), "insert")],
    [(1, "b", 2.0, "delete")],
]


def as_csv(rows: Rows) -> bytes:
    texts = (",".join("" if value is None else str(value) for value in row.values()) for row in rows)
    return gzip.compress("\n".join(("k,j,v", *texts)).replace("nan", "NaN").encode() + b"\n")


def as_json(rows: Rows) -> bytes:
    return "\n".join(json.dumps(row).replace("NaN", '"NaN"') for row in rows).encode()


def as_parquet(rows: Rows) -> bytes:
    table = pa.table({name: [row[name] for row in rows] for name in ("v", "j", "k")})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def put(file: Path, content: bytes, day: int) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    os.utime(file, ns=(day * 86_400 * 10**9 + 1000,) * 2)


def read(spark: Any, source: FileSource, storage: Any, snapshot: Any, id_: int) -> tuple[list[Any], Any]:
    segment, snapshot = source.poll(0, snapshot, SourceContext(storage, id_, f"p/chk-{id_}/dim/0-1-{id_}"))
    assert segment is not None
    assert source.arrow_reader([segment]) is None
    rows = source.read(spark, [segment]).collect()
    return [(row["_valid_from"], row["k"], row["j"], row["v"], row["_change"]) for row in rows], snapshot


def in_order(rows: list[Any]) -> list[str]:
    """As text, in which a NaN is like any other."""
    return sorted(map(repr, rows))


def expected(first: int, last: int) -> list[str]:
    day = datetime(1970, 1, 1)
    versions = [(day + timedelta(days=at, microseconds=1), CHANGES[at - 1]) for at in range(first, last + 1)]
    return in_order([(at, *change) for at, changes in versions for change in changes])


def test_changes_of_every_format_one_by_one_and_together(spark: Any, tmp_path: Path) -> None:
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))
    options: dict[str, Any] = {"mode": "snapshot", "key": ["k", "j"], "schema": "k BIGINT, j STRING, v DOUBLE"}
    for format_, name, encode in (
        ("csv", "dim.csv.gz", as_csv),
        ("json", "dim.json", as_json),
        ("parquet", "dim.parquet", as_parquet),
    ):
        one = FileSource(str(tmp_path / "one" / name), format_, **options)
        snapshot = None
        for day in (1, 2):
            put(tmp_path / "one" / name, encode(VERSIONS[day - 1]), day)
            found, snapshot = read(spark, one, storage, snapshot, day)
            assert in_order(found) == expected(day, day), format_
    many = FileSource(str(tmp_path / "many"), "parquet", glob="*.parquet", **options)
    put(tmp_path / "many" / "1.parquet", as_parquet(VERSIONS[0]), 1)
    found, snapshot = read(spark, many, storage, None, 11)
    assert in_order(found) == expected(1, 1)
    for day in (2, 3, 4):
        put(tmp_path / "many" / f"{day}.parquet", as_parquet(VERSIONS[day - 1]), day)
    found, snapshot = read(spark, many, storage, snapshot, 12)
    assert in_order(found) == expected(2, 4)

    # An error names the file, not its copy.
    put(tmp_path / "many" / "5.parquet", as_parquet([{"k": "x", "j": "a", "v": 1.0}]), 5)
    segment, _ = many.poll(0, snapshot, SourceContext(storage, 13, "p/chk-13/dim/0-1-13"))
    assert segment is not None
    with pytest.raises(Py4JJavaError) as raised:
        many.read(spark, [segment])
    explained = many.explain(raised.value, [segment])
    assert isinstance(explained, MalformedRowsError)
    assert f"{tmp_path}/many/5.parquet has the column k" in str(explained)
    assert "checkpoints/" not in str(explained)

    # A version may have more columns than the one before, if the source says so.
    grown = FileSource(str(tmp_path / "grown.csv"), evolve="add", **options)
    put(tmp_path / "grown.csv", b"k,j\n1,a\n2,b\n", 1)
    _, snapshot = read(spark, grown, storage, None, 21)
    put(tmp_path / "grown.csv", b"k,j,v\n1,a,\n2,b,3\n", 2)
    found, _ = read(spark, grown, storage, snapshot, 22)
    assert [row[1:] for row in found] == [(2, "b", 3.0, "update")]
