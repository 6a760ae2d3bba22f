"""Avro of a topic: columns from its schema, schemas by id, and what a record is that does not fit."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.formats import Format, schema_of
from tidegate.protocol.facts.errors import MalformedRowsError, NotInstalledError, PipelineDefinitionError
from tidegate.testing.every_type import EVERY_TYPE

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "cents", "type": "int"},
    ],
}
#: As before `note`, with a field that is gone.
OLDER: dict[str, Any] = {
    **ORDER,
    "fields": [ORDER["fields"][0], {"name": "gone", "type": "string"}, {"name": "cents", "type": "int"}],
}
EVERY: dict[str, Any] = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "also", "type": ["null", "Kind"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "number", "type": ["int", "long"]},
        {
            "name": "address",
            "type": ["null", {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}],
        },
    ],
}
DDL = (
    "`flag` BOOLEAN, `day` DATE, `at` TIMESTAMP, `micros` TIMESTAMP, `local` TIMESTAMP_NTZ, `clock` INT, "
    "`price` DECIMAL(5,2), `id` STRING, `kind` STRING, `also` STRING, `hash` BINARY, `tags` ARRAY<STRING>, "
    "`counts` MAP<STRING, BIGINT>, `number` BIGINT, `address` STRUCT<`city`: STRING>"
)


def written(schema: dict[str, Any], row: dict[str, Any], id_: int | None = None) -> bytes:
    content = BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), row)
    return (b"" if id_ is None else b"\0" + id_.to_bytes(4, "big")) + content.getvalue()


def rows(form: Format, values: list[bytes | None], schema: str | None = None) -> tuple[list[Any], list[Any]]:
    found = form.decoder(arrow_columns(schema or form.columns() or "")).decode(values)
    return found.columns.to_pylist(), [(each.record, each.reason) for each in found.misfits]


def test_the_columns_are_those_of_the_schema() -> None:
    assert Format("avro", avro=EVERY).columns() == DDL
    assert Format("avro", avro=json.dumps(ORDER)).columns() == "`id` BIGINT, `note` STRING, `cents` INT"
    row = {
        "flag": True,
        "day": 20_000,
        "at": 1,
        "micros": -1,
        "local": 2,
        "clock": 3,
        "price": b"\x00\x96",
        "id": "u",
        "kind": "B",
        "also": None,
        "hash": b"ab",
        "tags": ["x"],
        "counts": {"k": 1, "l": None},
        "number": 2**40,
        "address": {"city": "Ulm"},
    }
    plain = json.loads(json.dumps(EVERY).replace('"logicalType"', '"was"'))
    (found,), misfits = rows(Format("avro", avro=EVERY), [written(plain, row)])
    assert misfits == []
    same = {name: row[name] for name in ("flag", "clock", "id", "kind", "also", "hash", "tags", "number", "address")}
    assert same.items() <= found.items()
    assert {name: str(found[name]) for name in ("day", "at", "micros", "local", "price", "counts")} == {
        "day": "2024-10-04",
        "at": "1970-01-01 00:00:00.001000+00:00",
        "micros": "1969-12-31 23:59:59.999999+00:00",
        "local": "1970-01-01 00:00:00.000002",
        "price": "1.50",
        "counts": "[('k', 1), ('l', None)]",
    }


def test_each_value_is_read_by_the_schema_that_wrote_it() -> None:
    form = Format("avro", schemas={3: OLDER, 7: ORDER})
    values = [
        written(OLDER, {"id": 1, "gone": "x", "cents": 5}, 3),
        written(ORDER, {"id": 2, "note": "n", "cents": 6}, 7),
    ]
    found, misfits = rows(form, values)
    assert found == [{"id": 1, "note": None, "cents": 5}, {"id": 2, "note": "n", "cents": 6}]
    assert misfits == []
    older, _ = rows(Format("avro", avro=OLDER, schemas={3: OLDER}), values[:1])
    assert older == [{"id": 1, "gone": "x", "cents": 5}]


def test_a_record_that_is_not_what_its_schema_says_is_malformed_alone() -> None:
    good = written(ORDER, {"id": 2, "note": "n", "cents": 6})
    framed = written(ORDER, {"id": 2, "note": "n", "cents": 6}, 7)
    found, misfits = rows(Format("avro", avro=ORDER), [good, good[:-1], None, good + b"..", b"", good, framed])
    assert [row["id"] for row in found] == [2, 2]
    assert misfits[:4] == [
        (1, "not Avro of its schema (EOFError)"),
        (2, "it has no value: a tombstone"),
        (3, "not Avro of its schema: 2 bytes are left"),
        (4, "not Avro of its schema (EOFError)"),
    ]
    assert misfits[4][0] == 6
    assert misfits[4][1].endswith("it begins like a value of the schema 7: give schemas= by id")
    by_id = Format("avro", avro=ORDER, schemas={3: {**ORDER, "fields": ORDER["fields"][:1]}, 7: ORDER})
    found, misfits = rows(by_id, [framed, good, framed[:3], b"\0\0\0\0\x05" + good, b"\0\0\0\0\x03\x02"])
    assert [row["id"] for row in found] == [2]
    assert misfits == [
        (1, "it does not begin with a zero and the id of a schema"),
        (2, "it does not begin with a zero and the id of a schema"),
        (3, "it has the schema 5, which schemas= does not have (only 3, 7)"),
        (4, "its schema does not become that of avro=: No default value for field cents in shop.Order"),
    ]


def test_tombstones_are_left_out_or_rows_of_nulls() -> None:
    good = written(ORDER, {"id": 2, "note": "n", "cents": 6})
    for tombstones, ids in (("skip", [2]), ("null", [None, 2])):
        found, misfits = rows(Format("avro", tombstones, ORDER), [None, good])  # type: ignore[arg-type]
        assert ([row["id"] for row in found], misfits) == (ids, [])


def test_a_value_that_its_column_does_not_hold_is_malformed_alone() -> None:
    year = {"type": "record", "name": "T", "fields": [{"name": "at", "type": {"type": "int", "logicalType": "date"}}]}
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "int"}]}
    found, misfits = rows(Format("avro", avro=year), [written(plain, {"at": each}) for each in (0, 2**31 - 1, 1)])
    assert [str(row["at"]) for row in found] == ["1970-01-01", "1970-01-02"]
    assert [record for record, _ in misfits] == [1]


def test_what_is_written_is_read_as_the_same_rows() -> None:
    kinds = {f"c{at}": given for at, given in enumerate(EVERY_TYPE.values())}
    most = max(len(values) for _, values in kinds.values()) + 1
    arrays = [pa.array([*values, *[None] * (most - len(values))], kind) for kind, values in kinds.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
    values = Format("avro").encoder(batch.schema).encode(batch)
    form = Format("avro", avro=schema_of(batch.schema))
    found = form.decoder(batch.schema).decode(values)
    assert not found.misfits
    assert found.columns.equals(batch)
    columns = arrow_columns("id BIGINT, note STRING, cents INT")
    orders = pa.RecordBatch.from_pylist([{"id": 1, "note": None, "cents": 2}], schema=columns)
    framed = Format("avro", schemas={3: OLDER, 7: ORDER}).encoder(orders.schema).encode(orders)
    assert framed == [written(ORDER, {"id": 1, "note": None, "cents": 2}, 7)]
    lacking = orders.set_column(0, "id", pa.array([None], pa.int64()))
    with pytest.raises(MalformedRowsError, match="A row does not fit the Avro schema of the topic: "):
        Format("avro", avro=ORDER).encoder(orders.schema).encode(lacking)


def record(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(fields)],
    }


TREE: dict[str, Any] = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
WRONG: list[tuple[Format, str | None, str]] = [
    (Format("xml"), "a INT", "format is 'xml', but must be json, avro or bytes"),  # type: ignore[arg-type]
    (Format("json", "drop"), "a INT", "tombstones is 'drop', but must be malformed, skip or null"),  # type: ignore[arg-type]
    (Format("json", avro=ORDER), "a INT", "avro= and schemas= are of format=\"avro\", and not of 'json'"),
    (Format("json"), None, 'format="json" needs a schema='),
    (Format("json"), "a INTERVAL DAY TO SECOND", "Column 'a' has the type INTERVAL DAY TO SECOND, which no value of"),
    (Format("json"), "a VARIANT", "Column 'a' has the type VARIANT, which no value of a topic can be read as"),
    (Format("json"), "a MAP<INT, INT>", "column 'a' is a map whose keys are no STRING, which JSON does not have"),
    (Format("bytes"), "a STRING", 'format="bytes" has one column, which is BINARY, and not a STRING'),
    (
        Format("avro"),
        None,
        'format="avro" needs the schema, as avro= or, if values begin with the id of one, as schemas=',
    ),
    (Format("avro", schemas={"7": ORDER}), None, "schemas= has '7', but must have the id of each schema, a number"),  # type: ignore[dict-item]
    (Format("avro", avro="{"), None, "avro= is no Avro schema: it is not JSON ("),
    (Format("avro", avro='"string"'), None, "avro= is no Avro schema of a record, such as {"),
    (Format("avro", schemas={3: "{"}), None, "The schema 3 is no Avro schema: it is not JSON ("),
    (Format("avro", avro=record(["int", "string"])), None, "avro=: the field f0 is a union of several types"),
    (
        Format("avro", avro=record("Missing")),
        None,
        "avro=: the field f0 has the type 'Missing', which is nowhere defined",
    ),
    (Format("avro", avro=TREE), None, "avro=: the field left.left.left is a record that contains itself"),
    (Format("avro", avro=ORDER), "id INT", "column 'id' is INT in schema=, and BIGINT in the Avro schema"),
    (
        Format("avro", avro=ORDER),
        "total INT",
        "column 'total' is no field of the Avro schema, which has id, note, cents",
    ),
]


@pytest.mark.parametrize(("form", "schema", "text"), WRONG, ids=[text[:40] for _, _, text in WRONG])
def test_what_is_wrong_is_told_at_definition(form: Format, schema: str | None, text: str) -> None:
    problems = list(form.problems(schema))
    assert problems, "nothing is found"
    assert problems[0].startswith(text)


def test_what_is_right_has_no_problems() -> None:
    for form, schema in (
        (Format("json"), "a INT, b MAP<STRING, ARRAY<DECIMAL(5,2)>>"),
        (Format("bytes"), None),
        (Format("bytes"), "payload BINARY"),
        (Format("avro", avro=EVERY), None),
        (Format("avro", schemas={1: ORDER}), "cents BIGINT, note STRING"),
    ):
        assert list(form.problems(schema)) == []
    assert Format("avro", avro=ORDER).described() == {"avro": ORDER}
    found, _ = rows(Format("avro", avro=ORDER), [written(ORDER, {"id": 1, "cents": 6})], "cents BIGINT, note STRING")
    assert found == [{"cents": 6, "note": None}]
    with pytest.raises(PipelineDefinitionError, match=r"avro= is no Avro schema: "):
        Format("avro", avro=record({"type": "fixed", "name": "F"})).decoder(arrow_columns("f0 BINARY"))


def test_without_fastavro_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.kafka.formats.find_spec", lambda name: None)
    form = Format("avro", avro=ORDER)
    for make in (form.decoder, form.encoder):
        with pytest.raises(NotInstalledError, match=r"The package fastavro is not installed.*'tidegate\[kafka\]'"):
            make(arrow_columns("id BIGINT, note STRING, cents INT"))
