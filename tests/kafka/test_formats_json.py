"""JSON of a topic is read as that of a file is: the same rows, and the same malformed records, for the same reasons."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.formats import Format
from tidegate.kafka.values import json_blocks
from tidegate.kafka.values.decoded import Decoded
from tidegate.kafka.values.json_blocks import JsonDecoder
from tidegate.kafka.values.json_records import Records
from tidegate.ports import SourceContext
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.testing.every_type import EVERY_TYPE

COLUMNS = {
    "b": "BOOLEAN",
    "y": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(5,2)",
    "s": "STRING",
    "x": "BINARY",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "numbers": "ARRAY<INT>",
    "texts": "ARRAY<STRING>",
    "days": "ARRAY<DATE>",
    "one": "STRUCT<x: INT, y: STRING, t: TIMESTAMP, d: DECIMAL(5,2)>",
    "some": "ARRAY<STRUCT<a: DATE>>",
}
MAPS = {"m": "MAP<STRING, INT>", "words": "MAP<STRING, STRING>"}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
VALUES = [
    *("1", "0", "-0", "-1", "1.0", "1.5", "-1.50", "1e2", "1E2", "1e-2", "1.255", "1.2500", "123.456", "1234.5"),
    *(
        "127",
        "200",
        "-129",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "1e400",
        "1e39",
        "-1e400",
        "1" * 30,
    ),
    *("true", "false", "null", "[]", "[1]", "[1,null,2]", '["a",1,true,null,{"x":1.50}]', '["2026-01-02",null]'),
    *('["2026"]', "[[1]]", '[{"a":"2026-01-02"},null,{}]', '[{"a":"x"}]', "[{}]", "{}", '{"x":1}', '{"X":1}'),
    '{"x":1,"y":"z","t":"2026-01-02T00:00:00Z","d":1.5}',
    *('{"x":null}', '{"x":1,"q":[1]}', '{"t":"2026"}', '{"d":1.255}', '{"d":"1.5"}', '{"y":{"k" : [1.0, "ä\\n"]}}'),
    *('{"":1}', '{"k":"1"}', '{"k":null}', '"\\ud83d\\ude00"', '"\\ud800"', '"ä\\u0000\\t"', "NaN", "-Infinity", "01"),
    *("+1", ".5", "1.", '"a'),
    *(
        f'"{text}"'
        for text in [
            *("", "x", "1", "1.5", " 1.5", "+1.5", ".5", "5.", "1e2", "Infinity", "-Infinity", "INF", "+INF", "-INF"),
            *("+Infinity", "Inf", "nan", "true", "QQ==", "QQ", "Q Q==", "QUI=", "QUI", "-_8=", "+/8=", "QUJD"),
            *("2026-01-02", "2026-01-02T10:15:00", "2026-01-02 10:15", "2026-01-02T10:15:00Z", "2026-02-30"),
            *("2026-01-02T10:15:00.123456789+01:00", "2026-01-02 10:15:00 UTC", "2026-01-02T10:15:00+0130"),
            *("2026-01-02T10:15:00+18:00", "2026-01-02T10:15:00+18:01", "2026-01-02T10:15:00+01:60"),
            *("2026-01-02T10:15:00 +01", "2026-01-02T24:00:00", "2026-01-02T10:15:60", "0000-01-01", "0001-01-01"),
            *("9999-12-31", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1582-10-10", "10:15:00", "2026"),
            "1582-10-10T00:00:00Z",
        ]
    ),
]
TEXTS = [
    *("{}", "null", "1", '"x"', "[]", "[1]", '[[{"i":1}]]', '[{"i":1}]', '[{"i":1},{"i":2}]', '[{"i":1},{"i":"x"}]'),
    *('{"i":1}{"i":2}', '{"i":1} {"i":2}', '{"i":1},{"i":2}', '{"q":1}', '{"q":NaN}', '{"i":1,"i":2}', '{"i":1,"I":2}'),
    *('{"I":1}', '{"i":1,"q":{"i":[1,{"z":1e999}]}}', '{"i":1}\t ', '{"i":1} x', '{"i":1', '{"i":null}', "{'i':1}"),
    *('{"i":1,"s":2,"l":"x","d":"y"}', '{"i":1,}', '{"i":"x","q":1,"s":"ä"}', '{"\\u0069":1}', '{"i":1,"q":"\\ud800"}'),
    *('{"i":1,"q":"a\\u0001"}', '[{"i":1}]{"i":2}', '{"i":1}[]', "[null]", '[{"i":1},null]', '[{"q":1}]', "true"),
    *('{"i":1}\u00a0', '{"one":{"x":1,"x":2}}', '{"i":1,"q":' + "[" * 500 + "]" * 500 + "}"),
]


def composed(seed: int, count: int, columns: Sequence[str]) -> list[str]:
    """Objects of any values in any columns, some of them with other keys and other blanks."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        names = chance.sample([*columns, "other", "I"], chance.randint(1, 4))
        gap = chance.choice(["", "", " "])
        pairs = (f'"{name}"{gap}:{gap}{chance.choice(VALUES)}' for name in names)
        found.append(f"{{{','.join(pairs)}}}")
    return found


def every_type(columns: Sequence[str]) -> pa.RecordBatch:
    """Rows with each value of each of some types, and nulls."""
    kinds = {name: EVERY_TYPE[name] for name in columns}
    most = max(len(values) for _, values in kinds.values()) + 1
    arrays = [pa.array([*values, *[None] * (most - len(values))], kind) for kind, values in kinds.values()]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{at}" for at in range(len(kinds))])


def without_nan(table: pa.Table) -> pa.Table:
    """NaN equals nothing, so that it is another number here."""
    for at, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(at)
            table = table.set_column(at, field, pc.if_else(pc.is_nan(column), pa.scalar(-4.5, field.type), column))
    return table


def decoded(of: Any, texts: Sequence[str]) -> tuple[pa.Table, list[tuple[str, str]]]:
    found: Decoded = of.decode([text.encode() for text in texts])
    return pa.Table.from_batches([found.columns]), [(each.value.decode(), each.reason) for each in found.misfits]


def plain(reason: str) -> str:
    """A reason of a file without its advice, and without numbers, which Spark writes in its own way."""
    if "inside a JSON value" in reason:
        return "ends"
    return reason.partition("; ")[0].partition(" = ")[0]


def alike(misfit: tuple[str, str]) -> tuple[str, str]:
    """Of an array with one value, a file says the value alone."""
    record, reason = misfit
    return record.strip("[] \t"), plain(reason)


@pytest.mark.spark
def test_a_topic_is_read_as_a_file_is(home: Path, spark: Any) -> None:
    schema = f"{SCHEMA}, {', '.join(f'{name} {kind}' for name, kind in MAPS.items())}"
    columns = arrow_columns(schema)
    texts = [*TEXTS, *(f'{{"{name}":{value}}}' for name in columns.names for value in [*VALUES, '"NaN"'])]
    texts += composed(1, 500, columns.names)
    written = every_type([name for name in EVERY_TYPE if name != "MAP<STRING, BIGINT>"])
    lines = [value.decode() for value in Format("json").encoder(written.schema).encode(written) if value is not None]
    for directory, content in (("landing", texts), ("written", lines)):
        (home / directory).mkdir()
        (home / directory / "a.json").write_text("\n".join(content), encoding="utf-8")
    context = SourceContext(ArrowCheckpointStorage(str(home / "checkpoints")), 1, "p/chk-1/in/0-1-x")

    def of_files(directory: str, ddl: str) -> tuple[pa.Table, list[tuple[str, str]]]:
        sink = ParquetSink("quarantine")
        source = FileSource(directory, "json", schema=ddl, malformed="quarantine", quarantine=sink)
        segment, _ = source.poll(0, None, context)
        assert segment is not None
        bad = source.read(spark, [segment], "malformed").toArrow().to_pylist()
        rows = source.read(spark, [segment]).toArrow().cast(arrow_columns(ddl))
        return rows, [(row["record"], row["reason"]) for row in bad]

    rows, misfits = of_files("landing", schema)
    assert rows.num_rows > 300
    assert len(misfits) > 1_000
    for reader in (JsonDecoder(columns), Records(columns)):
        our_rows, our_misfits = decoded(reader, texts)
        assert without_nan(our_rows).equals(without_nan(rows))
        ours, theirs = (
            [(record.strip("[] \t"), plain(reason)) for record, reason in one] for one in (our_misfits, misfits)
        )
        assert ours == theirs
    kinds = [name for name in EVERY_TYPE if name != "MAP<STRING, BIGINT>"]
    ddl = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
    rows, misfits = of_files("written", ddl)
    assert misfits == []
    assert rows.equals(pa.Table.from_batches([written]).cast(rows.schema))


def test_what_is_written_is_read_as_the_same_rows() -> None:
    written = every_type(list(EVERY_TYPE))
    values = Format("json").encoder(written.schema).encode(written)
    found = Format("json").decoder(written.schema).decode(values)
    assert not found.misfits
    assert found.columns.equals(written)
    kinds = pa.schema([("d", pa.float32()), ("m", pa.map_(pa.int32(), pa.int8()))])
    some = [pa.array([float("nan"), float("-inf"), 0.1], kinds[0].type), pa.array([[(1, 2)], [], None], kinds[1].type)]
    assert Format("json").encoder(kinds).encode(pa.RecordBatch.from_arrays(some, schema=kinds)) == [
        b'{"d":"NaN","m":{"1":2}}',
        b'{"d":"-Infinity","m":{}}',
        b'{"d":0.1,"m":null}',
    ]


RECORDS = [
    *TEXTS,
    "",
    "  ",
    '{"i":1}\n',
    '{\n "i": 1,\r\n "s": "x"\n}',
    '{"i":1}\0',
    '{"i":1,"s":"\0"}',
    '\ufeff{"i":1}',
]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.lists(st.sampled_from(RECORDS), max_size=8), st.booleans())
def test_a_block_is_read_as_its_records_are_one_by_one(seed: int, odd: list[str], pure: bool) -> None:
    columns = arrow_columns(SCHEMA)
    texts = [*odd, *composed(seed, 12, columns.names)] if not pure else composed(seed, 3, ["i", "s"])
    random.Random(seed).shuffle(texts)
    few, json_blocks._FEW = json_blocks._FEW, 1
    try:
        found = JsonDecoder(columns).decode([text.encode() for text in texts])
    finally:
        json_blocks._FEW = few
    alone = Records(columns).decode([text.encode() for text in texts])
    assert list(found.misfits) == list(alone.misfits)
    assert without_nan(pa.Table.from_batches([found.columns])).equals(
        without_nan(pa.Table.from_batches([alone.columns]))
    )
    places = range(len(texts)) if found.records is None else found.records.tolist()
    assert list(places) == alone.records.tolist()


def block(texts: Sequence[bytes], schema: str = "i INT, s STRING") -> Decoded:
    return JsonDecoder(arrow_columns(schema)).decode(texts)


def whole(texts: Sequence[bytes], schema: str = "i INT, s STRING") -> bool:
    """Whether a block is read as one."""
    try:
        JsonDecoder(arrow_columns(schema))._block(list(texts))
    except json_blocks._DOUBTFUL:
        return False
    return True


def test_usual_records_are_read_in_blocks() -> None:
    assert whole(
        [b'{"i":1,"s":"x"}', b'{"i":null,"s":""}', b'{"s":"\\ud83d\\ude00","other":{"J":1}}', b' {"i":\n2} \n']
    )
    assert whole([b'{"at":"2026-01-02T10:15:00+01:00","days":["2026-01-02"]}'], SCHEMA)
    assert not whole([b'{"I":1}'])
    assert not whole([b'{"other":1}'])
    assert not whole([b'{"i":1}', b'{"i":2}{"i":3}'])


def test_the_rows_of_a_block_are_counted() -> None:
    """A record of two objects and one of half an object would have the rows of two records."""
    values = [b'{"i":1}{"i":2}', b"", *(b'{"i":%d}' % each for each in range(3, 60))]
    found = block(values)
    assert found.columns.column("i").to_pylist() == [1, 2, *range(3, 60)]
    assert found.records is not None
    assert found.records.tolist() == [0, 0, *range(2, 59)]
    assert [(each.record, each.reason) for each in found.misfits] == [(1, "it has no JSON")]
    values = [b'{"i":1,"s":', b'"x"}', b'{"i":1}{"i":2}', *(b'{"i":%d}' % each for each in range(60))]
    assert [each.record for each in block(values).misfits] == [0, 1]


def test_one_malformed_record_does_not_make_a_block_slow() -> None:
    looked: list[int] = []
    decoder = JsonDecoder(arrow_columns("i INT"))
    alone: Callable[..., Decoded] = decoder._records.decode
    decoder._records.decode = lambda values: looked.append(len(values)) or alone(values)  # type: ignore[method-assign,func-returns-value]
    values = [b'{"i":%d}' % each for each in range(10_000)]
    values[7_777] = b"oops"
    found = decoder.decode(values)
    assert found.columns.num_rows == 9_999
    assert [each.record for each in found.misfits] == [7_777]
    assert sum(looked) <= 64


@pytest.mark.parametrize("count", [1, 100])
def test_a_tombstone_is_malformed_left_out_or_a_row_of_nulls(count: int) -> None:
    values = [None, *(b'{"i":%d}' % each for each in range(count)), None]
    columns = arrow_columns("i INT")
    found = Format("json").decoder(columns).decode(values)
    assert [(each.record, each.reason, each.value) for each in found.misfits] == [
        (0, "it has no value: a tombstone", None),
        (count + 1, "it has no value: a tombstone", None),
    ]
    left = Format("json", tombstones="skip").decoder(columns).decode(values)
    for each in (found, left):
        assert each.columns.column(0).to_pylist() == list(range(count))
        assert each.records is not None
        assert each.records.tolist() == list(range(1, count + 1))
    nulls = Format("json", tombstones="null").decoder(columns).decode(values)
    assert nulls.columns.column(0).to_pylist() == [None, *range(count), None]
    assert nulls.records is None or nulls.records.tolist() == list(range(count + 2))
    assert not [*left.misfits, *nulls.misfits]
    nothing = Format("json", tombstones="skip").decoder(columns).decode([None])
    assert nothing.columns.num_rows == 0


def test_bytes_are_what_they_are() -> None:
    values = [b"a", None, b"", b"\xff"]
    columns = arrow_columns("payload BINARY")
    found = Format("bytes").decoder(columns).decode(values)
    assert found.columns.to_pydict() == {"payload": values}
    assert Format("bytes").encoder(columns).encode(found.columns) == values
