"""A schema declared by a type of Spark's or a model of pydantic's is a text in Spark DDL. No Spark is started."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal, Optional

import pytest
from cases import for_each
from pydantic import BaseModel, Field
from pyspark.sql import types as T

from tidegate.ports.declared_schemas import ddl_of
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.ddl import columns_of


class Colour(StrEnum):
    RED = "red"


class Place(BaseModel):
    lat: float
    long_name: str = Field(alias="long name")


class Order(BaseModel):
    id: int
    customer: str | None
    paid: Optional[bool] = None  # noqa: UP045
    day: date
    at: datetime
    took: timedelta
    price: Decimal
    tax: Annotated[Decimal | None, Field(max_digits=9, decimal_places=2)]
    points: Decimal = Field(max_digits=6)
    raw: bytes
    kind: Literal["new", "old"]
    colour: Colour
    tags: list[str]
    extra: dict[str, list[int]] | None
    place: Place
    unit_price: float = Field(alias="unit price")


def test_a_model_has_a_column_for_each_field() -> None:
    assert columns_of(ddl_of(Order)) == [
        ("id", "BIGINT"),
        ("customer", "STRING"),
        ("paid", "BOOLEAN"),
        ("day", "DATE"),
        ("at", "TIMESTAMP"),
        ("took", "INTERVAL DAY TO SECOND"),
        ("price", "DECIMAL(38, 18)"),
        ("tax", "DECIMAL(9, 2)"),
        ("points", "DECIMAL(6, 0)"),
        ("raw", "BINARY"),
        ("kind", "STRING"),
        ("colour", "STRING"),
        ("tags", "ARRAY<STRING>"),
        ("extra", "MAP<STRING, ARRAY<BIGINT>>"),
        ("place", "STRUCT<lat: DOUBLE, `long name`: STRING>"),
        ("unit price", "DOUBLE"),
    ]


def test_a_type_of_sparks_keeps_what_it_says() -> None:
    inner = T.StructType([T.StructField("a b", T.IntegerType()), T.StructField("c", T.ArrayType(T.DateType()))])
    schema = T.StructType(
        [
            T.StructField("id", T.LongType(), nullable=False),
            T.StructField("odd`name", T.DecimalType(10, 2)),
            T.StructField("m", T.MapType(T.StringType(), inner)),
            T.StructField("at", T.TimestampNTZType()),
        ]
    )
    inside = "map<string, struct<`a b`: int, c: array<date>>>"
    assert ddl_of(schema) == f"id bigint NOT NULL, `odd``name` decimal(10,2), m {inside}, at timestamp_ntz"
    assert ddl_of("k STRING") == "k STRING"


class Number(IntEnum):
    ONE = 1


@for_each("annotation", [int | str, complex, Any, Literal[1, 2], Number, set[int], tuple[int, ...]])
def test_a_field_that_no_column_holds_is_named(annotation: Any) -> None:
    model = type("Odd", (BaseModel,), {"__annotations__": {"good": int, "wrong": annotation}})
    with pytest.raises(PipelineDefinitionError, match=r"The field 'wrong' of Odd has the type .*no column of Spark"):
        ddl_of(model)


@for_each("schema", [None, 7, {"k": "string"}, ["k"], Place(**{"lat": 1, "long name": "x"}).lat])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"A schema is Spark DDL such as .* not "):
        ddl_of(schema)
