"""A computation of the same tables by plain Spark over all files, to compare with the delivered ones.

It shares only the two schemas with the pipeline, so that a mistake in the pipeline is not repeated here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flights import lake, mart
from flights.layout import TABLES
from flights.pipeline import FLIGHTS, WEATHER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR = ["origin", "time_hour"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table compared with the batch computation: the number of rows of each, and of rows that only one has."""

    table: str
    rows: int
    expected: int
    missing: int
    surplus: int

    @property
    def identical(self) -> bool:
        return self.rows == self.expected > 0 and self.missing == self.surplus == 0


def compute(spark: "SparkSession", landing: Path) -> dict[str, "DataFrame"]:
    """Compute every table from the files below `landing`."""
    from pyspark.sql import functions as F  # pyspark is a heavy import that only the end of the demonstration needs

    reader = spark.read.option("header", "true").option("nullValue", "NA")
    departures = reader.schema(FLIGHTS).csv(str(landing / "flights")).where("dep_delay IS NOT NULL").cache()
    weather = reader.schema(WEATHER).csv(str(landing / "weather"))
    count, minutes = F.count("*").alias("flights"), F.sum("dep_delay").alias("minutes")
    carriers = departures.groupBy("carrier").agg(count, minutes, F.max("dep_delay").alias("worst"))
    hours = departures.groupBy(HOUR).agg(count, minutes).join(weather, HOUR, "full_outer")
    return {
        "departures": departures,
        "carrier_delays": carriers,
        "delay_by_weather": hours.select(*HOUR, "flights", "minutes", "temp", "precip", "visib").fillna(
            0, ["flights", "minutes"]
        ),
    }


def compare(
    spark: "SparkSession", tables: Path, database_url: str, expected: Mapping[str, "DataFrame"]
) -> list[Comparison]:
    """Compare each table in Parquet, Iceberg and Postgres with the expected one, row by row, counting repeated rows."""
    comparisons = []
    for name, wanted in expected.items():
        shown = spark.read.parquet(str((tables / TABLES[name]).resolve()))
        comparisons.append(_compared(name, shown, wanted))
    has, must = Counter(mart.rows(database_url)), Counter(tuple(row) for row in expected["carrier_delays"].collect())
    comparisons.append(
        Comparison("carrier_mart", has.total(), must.total(), (must - has).total(), (has - must).total())
    )
    for name, table in lake.TABLES.items():
        shown = spark.createDataFrame(lake.rows(database_url, table))
        comparisons.append(_compared(name, shown, expected[table]))
    return comparisons


def _compared(name: str, shown: "DataFrame", wanted: "DataFrame") -> Comparison:
    has = shown.select(wanted.columns)
    missing, surplus = wanted.exceptAll(has).count(), has.exceptAll(wanted).count()
    return Comparison(name, has.count(), wanted.count(), missing, surplus)
