"""The tables in Iceberg and Postgres that change together with a checkpoint, and a reader that loops over three of
them.

Two of the tables hold departures aggregated by carrier. A reader that saw them as of different checkpoints would find a
difference.
"""

from collections import Counter
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, text

from flights import lake, mart

if TYPE_CHECKING:
    import pyarrow as pa

_LOCATIONS = text("""
SELECT table_name, metadata_location FROM tidegate_iceberg.iceberg_tables WHERE table_namespace = :namespace
""")
#: `figures` gets its row when a checkpoint completes, and is not changed afterwards.
_TRANSACTIONS = text("""
SELECT 'carrier_mart' AS name, max(xmin::text::bigint) AS transaction FROM carrier_delays
UNION ALL
SELECT table_name || '_iceberg', xmin::text::bigint FROM tidegate_iceberg.iceberg_tables
WHERE table_namespace = :namespace
UNION ALL
SELECT 'checkpoint', xmin::text::bigint FROM tidegate.figures
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id
""")
#: Seconds between two reads.
_PAUSE = 0.2


def transactions(url: str, pipeline_id: str, checkpoint_id: int) -> dict[str, int]:
    """Return the transaction that wrote the newest rows of each table, and the one that completed the checkpoint."""
    parameters = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "namespace": lake.NAMESPACE}
    with mart.connected(url) as connection:
        return {row.name: row.transaction for row in connection.execute(_TRANSACTIONS, parameters)}


class LoopingReader:
    """A reader of the three tables, each time as of one moment, from the beginning of a block to its end.

    `reads` is the number of reads by the number of departures that the tables had; `of_two` is the number in which the
    tables disagreed.
    """

    def __init__(self, url: str) -> None:
        self.reads: Counter[int] = Counter()
        self.of_two = 0
        self._url = url
        self._ended = Event()
        self._failed: Exception | None = None
        self._thread = Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._read()  # the data before anything changes
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        if kind is not None:
            return
        if self._failed is not None:
            raise self._failed
        self._read()  # the data after the block

    def _loop(self) -> None:
        try:
            while not self._ended.wait(_PAUSE):
                self._read()
        except Exception as error:  # raised at the end of the block
            self._failed = error

    def _read(self) -> None:
        with mart.connected(self._url, isolation_level="REPEATABLE READ") as connection:
            in_postgres, locations = _as_of_now(connection)
        departures = _rows(locations["departures"], "carrier", "dep_delay")
        counted = _counted(departures)
        delays = _rows(locations["carrier_delays"], "carrier", "flights", "minutes", "worst")
        self.reads[departures.num_rows] += 1
        if not in_postgres == counted == sorted(tuple(row.values()) for row in delays.to_pylist()):
            self.of_two += 1


def _as_of_now(connection: Connection) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """Return the rows in Postgres, and the metadata file of each table in Iceberg, as of one moment."""
    locations = connection.execute(_LOCATIONS, {"namespace": lake.NAMESPACE})
    by_table = {row.table_name: row.metadata_location for row in locations}
    return mart.rows_of(connection), by_table


def _rows(location: str, *columns: str) -> "pa.Table":
    from pyiceberg.table import StaticTable  # a heavy import, as below

    return StaticTable.from_metadata(location).scan(selected_fields=columns).to_arrow().select(columns)


def _counted(departures: "pa.Table") -> list[tuple[Any, ...]]:
    """Return flights, minutes and the worst delay by carrier, as the other tables have them."""
    by_carrier = departures.group_by("carrier").aggregate([("dep_delay", how) for how in ("count", "sum", "max")])
    return sorted(tuple(row.values()) for row in by_carrier.select(_AGGREGATES).to_pylist())


_AGGREGATES = ["carrier", "dep_delay_count", "dep_delay_sum", "dep_delay_max"]
