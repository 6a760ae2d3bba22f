"""A column that a definition names and that cannot be there is found when the pipeline is defined."""

import re

import pytest
from cases import for_each
from pydantic import BaseModel
from worlds import MemorySink, SplitSource

from tidegate import Pipeline, avg, count, expect, max_, max_by, suite
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError


class Orders(SplitSource):
    schema = "customer string, Amount int, place struct<lat: double, lon: double>"


class Unknown(SplitSource):
    schema = "not a list of columns,"


class Visit(BaseModel):
    customer: str
    Amount: int


class Visits(SplitSource):
    schema = Visit


def described(column):
    return suite("amounts", expect("column_values_to_be_between", column=column, min_value=0))


def paired(*columns):
    return suite("pairs", expect("compound_columns_to_be_unique", column_list=list(columns)))


def keyed(pipeline, stream):
    @pipeline.keyed("last", inputs=[stream], key=["customer"], state="customer string, amount int")
    def last(orders, state):
        return orders

    return last


def emitting(pipeline, stream):
    state, output = "customer string, n int", "Amount int"
    return pipeline.keyed("once", inputs=[stream], key=["customer"], state=state, output=output)(lambda *_: None)


MISTAKES = {
    "key": (
        lambda p, o: o.key_by("custmer").aggregate("totals", n=count()),
        "The key of operator 'totals' of pipeline 'shop' names a column 'custmer', which 'orders' does not have. It "
        "has customer, Amount, place. Is 'customer' meant?",
    ),
    "key of a function": (
        lambda p, o: p.keyed("last", inputs=[o], key=["client"], state="client string, n int")(lambda *_: None),
        "The key of operator 'last' of pipeline 'shop' names a column 'client', which 'orders' does not have",
    ),
    "aggregate": (
        lambda p, o: o.key_by("customer").aggregate("totals", mean=avg("amuont")),
        "mean=avg(…) in operator 'totals' of pipeline 'shop' names a column 'amuont', which 'orders' does not have. It "
        "has customer, Amount, place. Is 'Amount' meant?",
    ),
    "ttl_by of an aggregate": (
        lambda p, o: o.key_by("customer").aggregate("totals", last=max_("Amount"), ttl="1 d", ttl_by="lst"),
        "ttl_by of operator 'totals' of pipeline 'shop' names a column 'lst', which its state does not have. It has "
        "customer, last. Is 'last' meant?",
    ),
    "ttl_by of a function": (
        lambda p, o: p.keyed("k", inputs=[o], key=["customer"], state="customer string", ttl="1 d", ttl_by="at")(print),
        "ttl_by of operator 'k' of pipeline 'shop' names a column 'at', which its state does not have",
    ),
    "ordering": (
        lambda p, o: o.key_by("customer").aggregate("totals", last=max_by("amount", "at")),
        "last=max_by(…) in operator 'totals' of pipeline 'shop' names a column 'at'",
    ),
    "key of what is emitted": (
        lambda p, o: emitting(p, o).key_by("customer").aggregate("b", n=count()),
        "The key of operator 'b' of pipeline 'shop' names a column 'customer', which 'once' does not have. It has "
        "Amount.",
    ),
    "expectation on what is emitted": (
        lambda p, o: emitting(p, o).sink("s", MemorySink(), expect=described("amuont")),
        "on sink 's' of pipeline 'shop' names a column 'amuont', which 'once' does not have. It has Amount. Is "
        "'Amount' meant?",
    ),
    "key of a join": (
        lambda p, o: o.join(emitting(p, o), name="j", key=["customer"]),
        "The key of operator 'j' of pipeline 'shop' names a column 'customer', which 'once' does not have",
    ),
    "keep of a join": (
        lambda p, o: o.join(emitting(p, o), name="j", key=["Amount"], keep="at"),
        "keep in join 'j' of pipeline 'shop' names a column 'at', which 'once' does not have",
    ),
    "aggregate of a join": (
        lambda p, o: o.join(emitting(p, o), name="j", key=["Amount"]).key_by("Amount").aggregate("b", m=avg("at")),
        "m=avg(…) in operator 'b' of pipeline 'shop' names a column 'at', which 'j' does not have. It has Amount, "
        "customer, place.",
    ),
    "aggregate of an aggregate": (
        lambda p, o: o.key_by("customer").aggregate("a", n=count()).key_by("customer").aggregate("b", m=avg("amount")),
        "m=avg(…) in operator 'b' of pipeline 'shop' names a column 'amount', which 'a' does not have. It has "
        "customer, n.",
    ),
    "behind a function": (
        lambda p, o: keyed(p, o).key_by("total").aggregate("b", n=count()),
        "The key of operator 'b' of pipeline 'shop' names a column 'total', which 'last' does not have",
    ),
    "expectation on rows": (
        lambda p, o: o.sink("raw", MemorySink(), expect=described("amounts")),
        "expect_column_values_to_be_between on sink 'raw' of pipeline 'shop' names a column 'amounts', which 'orders'",
    ),
    "expectation on several": (
        lambda p, o: o.sink("raw", MemorySink(), expect=paired("customer", "day")),
        "expect_compound_columns_to_be_unique on sink 'raw' of pipeline 'shop' names a column 'day'",
    ),
    "expectation on state": (
        lambda p, o: o.key_by("customer").aggregate("totals", n=count(), expect=described("amount")),
        "on operator 'totals' of pipeline 'shop' names a column 'amount', which its state does not have",
    ),
}


@for_each("name", MISTAKES)
def test_a_column_that_cannot_be_there_is_named(name):
    build, message = MISTAKES[name]
    pipeline = Pipeline("shop")
    build(pipeline, pipeline.source("orders", Orders()))
    with pytest.raises(PipelineDefinitionError, match=re.escape(message)):
        compile_graph(pipeline)


@for_each(
    "build",
    [
        lambda p, o: o.key_by("CUSTOMER").aggregate("totals", n=count("amount")),
        lambda p, o: o.key_by("place.lat").aggregate("totals", n=count("`odd`")),
        lambda p, o: o.transform(lambda rows: rows).key_by("day").aggregate("totals", n=count()),
        lambda p, o: o.transform(lambda rows: rows, deterministic=False, name="drawn").sink(
            "raw", MemorySink(), expect=described("drawn")
        ),
        lambda p, o: p.source("others", Unknown()).key_by("anything").aggregate("totals", n=count()),
        lambda p, o: o.sink(
            "raw", MemorySink(), expect=suite("rows", expect("table_row_count_to_be_between", min_value=0))
        ),
    ],
)
def test_what_may_be_there_is_not_refused(build):
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", Orders())
    orders.sink("all", MemorySink())
    build(pipeline, orders)
    compile_graph(pipeline)


UNKEPT = {
    "a source": (
        lambda p: p.source("orders", Collated(2)).sink("all", MemorySink()),
        "The schema of source 'orders' of pipeline 'shop' declares a constraint that Tidegate does not keep, "
        "so a violation would go unnoticed: column 'customer' is declared COLLATE UTF8_LCASE: leave COLLATE out",
    ),
    "the state of a function": (
        lambda p: p.keyed(
            "last", inputs=[p.source("o", Orders(2))], key=["customer"], state="customer string, n char(3)"
        )(lambda *_: None),
        "The state of operator 'last' of pipeline 'shop' declares a constraint that Tidegate does not keep, "
        "so a violation would go unnoticed: column 'n' is declared CHAR(3): declare it STRING",
    ),
    "the output of a function": (
        lambda p: p.keyed(
            "last",
            inputs=[p.source("o", Orders(2))],
            key=["customer"],
            state="customer string",
            output="n int not null",
        )(lambda *_: None),
        "The output of operator 'last' of pipeline 'shop' declares a constraint that Tidegate does not keep, "
        "so a violation would go unnoticed: column 'n' is declared NOT NULL: leave NOT NULL out",
    ),
}


class Collated(SplitSource):
    schema = "customer string collate UTF8_LCASE"


@for_each("name", UNKEPT)
def test_what_a_schema_promises_and_nothing_keeps_is_refused(name):
    build, said = UNKEPT[name]
    pipeline = Pipeline("shop", parallelism=1)
    build(pipeline)
    with pytest.raises(PipelineDefinitionError, match=re.escape(said)):
        compile_graph(pipeline)


def test_a_source_of_ones_own_may_declare_a_model():
    pipeline = Pipeline("shop", parallelism=1)
    stream = pipeline.source("visits", Visits())
    stream.key_by("customer").aggregate("totals", most=max_("Amont"))
    with pytest.raises(PipelineDefinitionError, match=r"Amont.*It has customer, Amount"):
        compile_graph(pipeline)
