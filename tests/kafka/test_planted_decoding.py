"""Mistakes that somebody could make where values are decoded, each planted, and each noticed by what is read then."""

import re
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from cases import for_each

from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.formats import Format
from tidegate.kafka.values import json_blocks, strict_texts
from tidegate.kafka.values.avro_values import AvroDecoder
from tidegate.kafka.values.decoded import Decoded
from tidegate.kafka.values.json_blocks import JsonDecoder
from tidegate.kafka.values.json_records import Records

COLUMNS = arrow_columns("i INT, s STRING, d DOUBLE, n DECIMAL(5,2), at TIMESTAMP")
PLAIN = [f'{{"i":{each},"s":"x","d":1,"n":1.5,"at":"2026-01-02T10:15:00Z"}}' for each in range(60)]


def agree(*odd: str) -> None:
    """A block has the rows, the places and the malformed records that its records have one by one."""
    values = [text.encode() for text in [*PLAIN[:40], *odd, *PLAIN[40:]]]
    found, alone = JsonDecoder(COLUMNS).decode(values), Records(COLUMNS).decode(values)
    assert found.columns.to_pylist() == alone.columns.to_pylist()
    assert list(found.misfits) == list(alone.misfits)
    assert alone.records is not None
    places = range(len(values)) if found.records is None else found.records.tolist()
    assert list(places) == alone.records.tolist()


def by_their_schemas() -> None:
    def schema(kind: str) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}

    content = BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema("long")), {"a": 5})
    form = Format("avro", avro=schema("double"), schemas={1: schema("int"), 2: schema("long"), 3: schema("double")})
    found = form.decoder(arrow_columns("a DOUBLE")).decode([b"\0\0\0\0\x02" + content.getvalue(), b"\0\0\0\0\x01\x08"])
    assert found.columns.to_pydict() == {"a": [5.0, 4.0]}


def uncounted(self: Any, values: Any) -> pa.RecordBatch:
    """As many rows as there are."""
    table = self._table(b"\n".join(values))
    arrays = [json_blocks._typed(table.column(each.name), each.type) for each in self._columns]
    return pa.RecordBatch.from_arrays(arrays, schema=self._columns)


def unmoved(found: Decoded, places: Any, misfits: Any = ()) -> Decoded:
    """The places are those in the half of a block."""
    return Decoded(found.columns, places if found.records is None else found.records, [*found.misfits, *misfits])


def of_the_last(self: Any, frame: bytes) -> Any:
    return list(self._writers.values())[-1]


#: Where it is planted, the mistake, and what notices.
MISTAKES: dict[str, tuple[Any, str, Any, Callable[[], None]]] = {
    "rows are not counted": (JsonDecoder, "_block", uncounted, partial(agree, '{"i":1}{"i":2}')),
    "halves of objects make one": (
        json_blocks,
        "_are_objects",
        lambda data, values: True,
        partial(agree, '{"i":1,"s":', '"x"}', '{"i":1}{"i":2}'),
    ),
    "places are not moved": (json_blocks, "_moved", unmoved, partial(agree, "oops")),
    "no column is null": (json_blocks, "_any_empty", lambda arrays: False, partial(agree, '{"other":1}')),
    "digits are not counted": (json_blocks, "_has_too_many_digits", lambda *_: False, partial(agree, '{"n":1234.5}')),
    "case counts": (json_blocks, "_names", lambda field: [], partial(agree, '{"I":1,"s":"x"}')),
    "NaN is a number": (json_blocks, "_NOT_NUMBER", re.compile(b"never"), partial(agree, '{"i":1,"other":NaN}')),
    "any zone is taken": (
        strict_texts,
        "_is_plain_utc",
        lambda texts: True,
        partial(agree, '{"i":1,"at":"2026-01-02T10:15:00+19:00"}'),
    ),
    "one schema for all": (AvroDecoder, "_writer", of_the_last, by_their_schemas),
}


@for_each("name", list(MISTAKES))
def test_a_mistake_is_noticed(name: str) -> None:
    where, what, mistake, notices = MISTAKES[name]
    notices()
    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(where, what, mistake)
        with pytest.raises(AssertionError):
            notices()
