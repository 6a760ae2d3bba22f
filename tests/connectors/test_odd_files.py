"""Odd files by what is odd about them, each with its right rows (`odd_files/rows.json`).

A file joins by lying in `odd_files/FORMAT/` and having an entry of its own: the cause, the source's schema and other
arguments, its rows, and what is malformed with the reason. Numbers without a JSON value of their own, decimals and
times are written as text.
"""

import json
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource

FILES = Path(__file__).parent / "odd_files"
TABLE: dict[str, dict[str, Any]] = json.loads((FILES / "rows.json").read_text())


def plain(value: Any) -> Any:
    match value:
        case Row() | list():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case Decimal() | date() | datetime() | bytes():
            return str(value)
        case float() if repr(value) in ("nan", "inf", "-inf"):
            return repr(value)
        case _:
            return value


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def test_each_odd_file_has_its_rows_in_the_table() -> None:
    assert sorted(str(path.relative_to(FILES)) for path in FILES.glob("*/*")) == sorted(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_an_odd_file_gives_its_rows(name: str, landing: Path, context: Any, spark: Any) -> None:
    entry = {**TABLE[name]}
    rows, malformed, _ = entry.pop("rows"), entry.pop("malformed"), entry.pop("cause")
    shutil.copy(FILES / name, landing)
    kind: Any = Path(name).parent.name
    source = FileSource("landing", kind, malformed="quarantine", quarantine=ParquetSink("q"), **entry)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    assert in_order(plain(source.read(spark, [segment]).collect())) == in_order(rows)
    found = source.read(spark, [segment], "malformed").select("record", "reason")
    assert in_order(plain(found.collect())) == in_order(malformed)
    if malformed:
        strict = FileSource("landing", kind, **entry)
        with pytest.raises(Exception) as raised:  # noqa: PT011
            strict.read(spark, [segment]).collect()
        assert isinstance(strict.explain(raised.value, [segment]), MalformedRowsError)
