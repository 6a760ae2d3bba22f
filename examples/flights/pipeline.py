"""The demonstration's pipeline: how late do flights leave New York, by carrier and by the weather of the hour?

Users write only this file, and the three lines of the DAG file.
"""

from tidegate import (
    CheckpointConfig,
    FileSource,
    IcebergSink,
    ParquetSink,
    Pipeline,
    PostgresSink,
    count,
    expect,
    max_,
    suite,
    sum_,
)

FLIGHTS = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
    arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT,
    hour INT, minute INT, time_hour TIMESTAMP"""
WEATHER = """
    origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT,
    wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"""
HOURLY = "origin STRING, time_hour TIMESTAMP, flights BIGINT, minutes BIGINT, temp DOUBLE, precip DOUBLE, visib DOUBLE"

pipeline = Pipeline(
    "flight_delays",
    parallelism=2,
    max_parallelism=128,
    checkpoints=CheckpointConfig(timeout="10 min", min_pause="0 s", retained=5, stale_after="1 h"),
)

flights = pipeline.source("flights", FileSource("landing/flights", schema=FLIGHTS, options={"nullValue": "NA"}))
weather = pipeline.source("weather", FileSource("landing/weather", schema=WEATHER, options={"nullValue": "NA"}))
flown = flights.transform(lambda df: df.where("dep_delay IS NOT NULL"))  # the others were cancelled

carriers = flown.key_by("carrier").aggregate(
    "carrier_delays", flights=count(), minutes=sum_("dep_delay"), worst=max_("dep_delay")
)


@pipeline.keyed(
    "delay_by_weather",
    inputs=[flown, weather],
    key=["origin", "time_hour"],
    state=HOURLY,
    expect=suite("one_row_an_hour", expect("compound_columns_to_be_unique", column_list=["origin", "time_hour"])),
)
def delay_by_weather(flown, weather, state):
    """Merge flights and weather per hour. They arrive in any order and in any checkpoint."""
    from pyspark.sql import functions as F  # imported here: Airflow parses this file often, and pyspark is heavy

    departures = flown.selectExpr("origin", "time_hour", "1L AS flights", "BIGINT(dep_delay) AS minutes")
    readings = weather.select("origin", "time_hour", "temp", "precip", "visib")
    known = state.unionByName(departures, allowMissingColumns=True).unionByName(readings, allowMissingColumns=True)
    totals = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("flights", "minutes")]
    return known.groupBy("origin", "time_hour").agg(
        *totals, *(F.max(name).alias(name) for name in ("temp", "precip", "visib"))
    )


A_DAY = 24 * 60  # minutes; a longer delay is a mistake in the data
flown.sink(
    "departures",
    ParquetSink("tables/departures"),
    expect=suite("departures", expect("column_values_to_be_between", column="dep_delay", max_value=A_DAY)),
)
carriers.sink(
    "carrier_delays",
    ParquetSink("tables/carrier_delays", mode="latest"),
    expect=suite(
        "carriers",
        expect("column_values_to_match_regex", column="carrier", regex="^[A-Z0-9]{2}$"),
        expect("column_values_to_be_between", column="worst", max_value=A_DAY),
    ),
)
carriers.sink("carrier_mart", PostgresSink("carrier_delays", mode="upsert", key="carrier"))
delay_by_weather.sink(
    "delay_by_weather",
    ParquetSink("tables/delay_by_weather", mode="latest"),
    expect=suite("hours", expect("column_values_to_be_between", column="visib", min_value=0, max_value=10)),
)

# The same tables in Iceberg. They change in the transaction that completes a checkpoint, as carrier_mart does.
flown.sink("departures_iceberg", IcebergSink("flights.departures"))
carriers.sink("carrier_delays_iceberg", IcebergSink("flights.carrier_delays", mode="latest"))
delay_by_weather.sink("delay_by_weather_iceberg", IcebergSink("flights.delay_by_weather", mode="latest"))


@pipeline.check(
    "every_departure_counts",
    sinks=["departures", "delay_by_weather"],
    expect=suite("no_departure_without_its_hour", expect("table_row_count_to_equal", value=0)),
)
def departures_without_their_hour(departures, hours):
    return departures.join(hours.where("flights > 0"), ["origin", "time_hour"], "left_anti")
