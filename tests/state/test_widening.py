"""Which types may be widened, and that values, hashes and defaults stay what they are."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from cases import for_each
from state_layouts import K, V, rows

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import can_widen, keeps_hash
from tidegate.state.hashing import spark_hash
from tidegate.state.type_names import type_name

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None]),
    (pa.int8(), [-128, 0, 127]),
    (pa.int16(), [-300, 300]),
    (pa.int32(), [-(2**31), 5]),
    (pa.int64(), [-(2**63), 5]),
    (pa.float32(), [-0.5, 1.5]),
    (pa.float64(), [-0.5, 1.5]),
    (pa.decimal128(5, 2), [Decimal("-1.50"), Decimal("999.99")]),
    (pa.decimal128(18, 2), [Decimal("-1.50"), Decimal("999999.99")]),
    (pa.decimal128(19, 2), [Decimal("-1.50"), Decimal("999999.99")]),
    (pa.decimal128(38, 2), [Decimal("-1.50")]),
    (pa.decimal128(38, 0), [Decimal(-15)]),
    (pa.decimal128(38, 18), [Decimal("-1.5")]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime(2026, 1, 1)]),
    (pa.timestamp("us", tz="UTC"), []),
    (pa.string(), ["a"]),
    (pa.binary(), [b"a"]),
    (pa.bool_(), [True]),
]


@for_each(("old", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_what_may_be_widened_keeps_every_value_and_a_key_its_hash(old: pa.DataType, values: list[Any]) -> None:
    stored = pa.array(values, old)
    for new, _ in VALUES:
        if not can_widen(type_name(old), type_name(new)):
            continue
        wide = stored.cast(new)
        if old != pa.null():
            assert wide.cast(old).equals(stored)
        kept = spark_hash([stored]).equals(spark_hash([wide]))
        assert kept == keeps_hash(type_name(old), type_name(new)), (old, new)


@for_each(
    ("defaults", "said"),
    [
        ({"w": 1}, "There is no column 'w' for a default. Apart from the key there are v."),
        ({"k": 1}, "There is no column 'k' for a default"),
        ({"v": "many"}, "The default 'many' of column 'v' is not of type int64."),
        ({"v": 1.5}, "The default 1.5 of column 'v' is not of type int64."),
        ({"v": [1]}, r"The default \[1\] of column 'v'"),
        ({"v": date(2026, 1, 1)}, "of column 'v' is not of type int64"),
    ],
)
def test_a_default_that_does_not_fit_is_refused_where_it_is_declared(defaults: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=said):
        rows(K, V, **defaults)
