"""CSV as everybody writes it, compared cell by cell: by pandas, by Postgres, as Excel saves it."""

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg2
import pytest

from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource

SCHEMA = "id INT, text STRING, amount DOUBLE, note STRING"
HEADER = [part.split()[0] for part in SCHEMA.split(", ")]
Cells = list[tuple[Any, ...]]

TEXTS = [
    *("plain", " blanks\t", "a,b;c", 'say "hi"', '"', '""', '"a","b"', "line\nbreak", "line\r\nbreak", "\n", "'q'"),
    *("back\\slash", '\\"', "\\", "\\n", "ünï 表 😀", "\ufffd", "#no comment", "NA", "null", "tab\tx", '5" disk', ","),
]
ROWS: Cells = [(at, text, at / 8, text[::-1]) for at, text in enumerate(TEXTS)]
EMPTY: Cells = [
    (None, "x", None, "y"),
    (100, "", 1.5, "y"),
    (101, None, None, "y"),
    (102, "x", None, ""),
    (103, "x", 1.0, None),
]


def read(spark: Any, context: Any, landing: Path, **arguments: Any) -> Cells:
    source = FileSource(str(landing), schema=SCHEMA, malformed="quarantine", quarantine=ParquetSink("q"), **arguments)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    assert source.read(spark, [segment], "malformed").collect() == []
    return in_order([tuple(row) for row in source.read(spark, [segment]).collect()])


def in_order(rows: Cells) -> Cells:
    return sorted(rows, key=repr)


def nulls(rows: Cells) -> Cells:
    """Empty strings as null."""
    return [tuple(None if cell == "" else cell for cell in row) for row in rows]


def test_postgres(landing: Path, context: Any, spark: Any, postgres_server: Any) -> None:
    """An empty field is null, and a quoted one the empty string: what COPY wrote comes back as it was."""
    connection = psycopg2.connect(postgres_server.url("postgres").replace("+psycopg2", ""))
    try:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE cells (id int, text text, amount float8, note text)")
            cursor.executemany("INSERT INTO cells VALUES (%s, %s, %s, %s)", ROWS + EMPTY)
            with (landing / "a.csv").open("wb") as file:
                cursor.copy_expert("COPY cells TO STDOUT (FORMAT csv, HEADER)", file)
    finally:
        connection.close()
    assert read(spark, context, landing) == in_order(ROWS + EMPTY)


PANDAS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"lineterminator": "\r\n", "encoding": "utf-8-sig"}, {}),
    ({"quoting": csv.QUOTE_ALL}, {}),
    ({"quoting": csv.QUOTE_NONNUMERIC, "encoding": "utf-16"}, {"encoding": "UTF-16"}),
    ({"sep": ";", "na_rep": "missing", "compression": "gzip"}, {"options": {"sep": ";", "nullValue": "missing"}}),
    ({"sep": "\t"}, {"options": {"delimiter": "\\t"}}),
]


@pytest.mark.parametrize(("written", "arguments"), PANDAS)
def test_pandas(written: dict[str, Any], arguments: dict[str, Any], landing: Path, context: Any, spark: Any) -> None:
    """It writes null and the empty string alike: both are null, or both empty where every text is quoted."""
    rows = [row for row in ROWS + EMPTY if row[0] is not None]
    frame = pd.DataFrame(rows, columns=HEADER)
    name = "a.csv.gz" if "compression" in written else "a.csv"
    frame.to_csv(landing / name, index=False, **written)
    if "quoting" in written:
        expected = [tuple("" if at in (1, 3) and cell is None else cell for at, cell in enumerate(row)) for row in rows]
    else:
        expected = nulls(rows)
    assert read(spark, context, landing, **arguments) == in_order(expected)


@pytest.mark.parametrize(("sep", "encoding"), [(",", "utf-8-sig"), (";", "windows-1252")])
def test_excel(sep: str, encoding: str, landing: Path, context: Any, spark: Any) -> None:
    """CRLF, a byte order mark; semicolons and the code page of Windows where the comma is the decimal sign."""
    rows = [row for row in ROWS + EMPTY if encoding == "utf-8-sig" or str(row).isascii()]
    rows.append((200, "é€", 1.0, "“q”"))
    text = io.StringIO()
    writer = csv.writer(text, "excel", delimiter=sep)
    writer.writerows([HEADER, *rows])
    (landing / "a.csv").write_bytes(text.getvalue().encode(encoding))
    arguments = {} if sep == "," else {"encoding": encoding, "options": {"sep": sep}}
    assert read(spark, context, landing, **arguments) == in_order(nulls(rows))


def test_spark_writes_a_dialect_of_its_own(landing: Path, context: Any, spark: Any, home: Path) -> None:
    odd = itertools.chain.from_iterable(itertools.product('a"\\, ', repeat=size) for size in range(1, 5))
    rows = [row for row in ROWS + EMPTY if "\n" not in str(row[1])]
    rows += [(1000 + at, "".join(signs), None, None) for at, signs in enumerate(odd)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    frame.write.csv(
        f"file://{home}/written", header=True, ignoreLeadingWhiteSpace=False, ignoreTrailingWhiteSpace=False
    )
    (part,) = (home / "written").glob("part-*.csv")
    part.rename(landing / "a.csv")
    dialect = {"escape": "\\", "multiLine": "false"}
    assert read(spark, context, landing, options=dialect) == in_order(rows)
