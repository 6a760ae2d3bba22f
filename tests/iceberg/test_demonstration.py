"""What the demonstration shows of tables that change together: its reader would notice one that does not."""

import io
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from marts import Mart
from rich.console import Console
from worlds import SplitSource

from flights import lake as iceberg
from flights import mart, report
from flights.together import LoopingReader, transactions
from tidegate import IcebergSink, Pipeline, PostgresSink

DELAYS = {"AA": [5, 7], "B6": [-2]}


class Delays(Mart):
    """What is upserted has a key of its own, so a transform stands before it."""

    def _defined(self):
        pipeline = Pipeline(self.name, parallelism=1, max_parallelism=8)

        @pipeline.keyed("op", inputs=[pipeline.source("src", SplitSource(1))], key=["k"], state="k bigint, v bigint")
        def keep(batch, state):
            return batch

        keep.sink("departures", IcebergSink("flights.departures"))
        keep.sink("carrier_delays", IcebergSink("flights.carrier_delays", "latest"))
        rows = keep.transform(lambda rows: rows)
        rows.sink("carrier_mart", PostgresSink("carrier_delays", mode="upsert", key="carrier"))
        return pipeline


@pytest.fixture
def of(lake, store, home):
    """The three tables, as the demonstration has them, of a pipeline without Spark."""
    return Delays(store, home)


def departures(delays):
    carriers = [carrier for carrier, each in delays.items() for _ in each]
    return pa.table(
        {"carrier": carriers, "dep_delay": pa.array([v for each in delays.values() for v in each], pa.int32())}
    )


def counted(delays, times):
    return pa.table(
        {
            "carrier": list(delays),
            "flights": pa.array([times * len(each) for each in delays.values()], pa.int64()),
            "minutes": pa.array([times * sum(each) for each in delays.values()], pa.int64()),
            "worst": pa.array([max(each) for each in delays.values()], pa.int32()),
        }
    )


def take(of, number):
    """The checkpoint of this number: the same departures once more."""
    totals = counted(DELAYS, number)
    return of.take(departures=departures(DELAYS), carrier_delays=totals, carrier_mart=totals)


def test_a_reader_that_loops_sees_each_checkpoint_as_a_whole(of, postgres_url):
    take(of, 1)
    with LoopingReader(postgres_url) as reader:
        for number in range(2, 7):
            take(of, number)
    assert reader.of_two == 0
    assert {3, 18} <= reader.reads.keys() <= {3, 6, 9, 12, 15, 18}
    assert reader.reads.total() >= 2


@pytest.mark.parametrize("table", ["carrier_delays", "carrier_mart", "departures"])
def test_a_table_of_another_checkpoint_is_noticed(of, postgres_url, table):
    take(of, 1)
    totals = counted(DELAYS, 1)
    same = {"departures": departures(DELAYS).slice(0, 0), "carrier_delays": totals, "carrier_mart": totals}
    ahead = {"departures": departures(DELAYS), **dict.fromkeys(("carrier_delays", "carrier_mart"), counted(DELAYS, 2))}
    of.take(**{**same, table: ahead[table]})
    with LoopingReader(postgres_url) as reader:
        pass
    assert reader.of_two == reader.reads.total() > 1


def test_a_reader_that_fails_says_so(of, postgres_url, here_and_lake):
    take(of, 1)
    with pytest.raises(Exception, match="carrier_delays"), LoopingReader(postgres_url):
        here_and_lake.do("ALTER TABLE carrier_delays DROP COLUMN worst")


def test_all_tables_are_of_the_checkpoints_transaction(of, postgres_url):
    for number in (1, 2):
        wrote = transactions(postgres_url, of.name, take(of, number))
        assert wrote.keys() == {"carrier_mart", "departures_iceberg", "carrier_delays_iceberg", "checkpoint"}
        assert len(set(wrote.values())) == 1


def test_what_the_demonstration_reads(of, postgres_url):
    take(of, 1)
    take(of, 2)
    assert sorted(rows for _, rows in iceberg.files(postgres_url, "departures")) == [3, 3]
    assert all(path.exists() for path, _ in iceberg.files(postgres_url, "carrier_delays"))
    assert iceberg.rows(postgres_url, "carrier_delays").to_pylist() == counted(DELAYS, 2).to_pylist()
    assert mart.rows(postgres_url) == [("AA", 4, 24, 7), ("B6", 2, -4, -2)]


def test_what_is_said_of_it():
    console = Console(file=io.StringIO(), width=110)
    record = SimpleNamespace(checkpoint_id=2, completed_at=datetime.now(UTC))
    report.at_once(console, record, {"checkpoint": 77, "departures_iceberg": 77, "carrier_mart": 77})
    report.looked_at(console, {203_000: 3, 115_009: 1_200}, 0)
    said = " ".join(console.file.getvalue().split())
    assert said == (
        "Checkpoint 2 became visible in transaction 77, and in the same one carrier_mart, departures_iceberg. "
        "Meanwhile a reader counted the departures in Iceberg by carrier, and compared the result with "
        "carrier_delays in Iceberg and carrier_mart in Postgres: 1,203 reads, 1,200 with 115,009 departures, 3 with "
        "203,000 departures, 0 of two checkpoints."
    )
