"""Mistakes in data and in what functions make of it: found when Spark looks, which `tidegate run` or `check` does."""

from typing import NamedTuple

PIPELINES = """
from tidegate import *
from pyspark.sql import functions as F

SCHEMA = "customer string, amount int"

def made(name, use=lambda rows: rows, expect=None, **options):
    pipeline = Pipeline(name, parallelism=1)
    orders = pipeline.source("orders", FileSource(f"landing/{name}", schema=SCHEMA, **options)).transform(use)
    orders.sink("orders", ParquetSink(f"tables/{name}"), expect=expect)
    return pipeline

def boom(amount):
    raise ValueError(f"no discount for {amount}")

def mine(rows):
    raise KeyError("my own mistake")

plain = made("plain")
days = made("days", partitions="day DATE")
raising = made("raising", mine)
gone = made("gone", lambda rows: rows.select("nothing"))
def discounted(rows):
    return rows.withColumn("amount", F.udf(lambda amount: boom(amount), "int")("amount"))

in_task = made("in_task", discounted)
drawn = made("drawn", lambda rows: rows.withColumn("at", F.rand()))
not_negative = expect("column_values_to_be_between", column="amount", min_value=0)
positive = made("positive", expect=suite("amounts", not_negative))
def current(name, use):
    pipeline = Pipeline(name, parallelism=1)
    orders = pipeline.source("orders", FileSource("landing/plain", schema=SCHEMA))
    totals = orders.key_by("customer").aggregate("totals", n=count()).transform(use)
    totals.sink("totals", ParquetSink(f"tables/{name}", mode="latest"))
    return pipeline

grouped = current("grouped", lambda rows: rows.groupBy("n").count())
keyless = current("keyless", lambda rows: rows.selectExpr("upper(customer) as customer", "n"))
odd = made("odd", expect=suite("amounts", expect("column_values_to_be_odd", column="amount")))
"""

GOOD = "customer,amount\nann,5\n"


class Delivered(NamedTuple):
    wrong: str
    command: str
    files: dict[str, str]
    latin1: bool = False
    link: tuple[str, str] | None = None  # where it is, and what it leads to


MISTAKES = [
    Delivered("a directory that is not there", "tidegate run plain", {}),
    Delivered(
        "a link to a file of another directory",
        "tidegate run plain",
        {"plain/1.csv": GOOD, "other/1.csv": GOOD},
        link=("plain/2.csv", "../other/1.csv"),
    ),
    Delivered("a row that is not of the schema", "tidegate run plain", {"plain/1.csv": GOOD + "bob,many\n"}),
    Delivered("a header with another column", "tidegate run plain", {"plain/1.csv": "customer,total\nann,5\n"}),
    Delivered("a header with a column more", "tidegate run plain", {"plain/1.csv": "customer,amount,vat\nann,5,1\n"}),
    Delivered("text in another encoding", "tidegate run plain", {"plain/1.csv": GOOD + "zoë,5\n"}, latin1=True),
    Delivered("a quote that nothing closes", "tidegate run plain", {"plain/1.csv": GOOD + '"bob,5\n'}),
    Delivered("a compression that is not read", "tidegate run plain", {"plain/1.csv.xz": GOOD}),
    Delivered("a file that lies in no day", "tidegate run days", {"days/1.csv": GOOD}),
    Delivered("a day that there is not", "tidegate run days", {"days/day=2013-02-30/1.csv": GOOD}),
    Delivered("a transform that raises", "tidegate check raising", {}),
    Delivered("a transform of a column that is not there", "tidegate check gone", {}),
    Delivered("a table of current rows that are grouped again", "tidegate check grouped", {}),
    Delivered("a table of current rows without their key", "tidegate check keyless", {}),
    Delivered("an expectation that there is not", "tidegate check odd", {}),
    Delivered("a function that raises for a row", "tidegate run in_task", {"in_task/1.csv": GOOD}),
    Delivered("rows that each computation draws anew", "tidegate run drawn", {"drawn/1.csv": GOOD}),
    Delivered("rows that do not meet an expectation", "tidegate run positive", {"positive/1.csv": GOOD + "bob,-7\n"}),
]
