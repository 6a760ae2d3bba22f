"""What changes together with a checkpoint: tables in Iceberg and one in Postgres, and a reader that loops over three.

Departures, counted by carrier, are what the other two tables have. A reader that saw them as of two checkpoints would
find a difference.
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
#: `figures` gets its row when a checkpoint completes, and keeps it as it is.
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
    """The transaction that wrote the newest rows of each table, and the one that completed the checkpoint."""
    asked = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "namespace": lake.NAMESPACE}
    with mart.connected(url) as connection:
        return {row.name: row.transaction for row in connection.execute(_TRANSACTIONS, asked)}


class LoopingReader:
    """Reads the three tables, each time as of one moment, from the beginning of a block to its end.

    `reads`: how many, by the number of departures that the tables had. `of_two`: of how many the tables disagreed.
    """

    def __init__(self, url: str) -> None:
        self.reads: Counter[int] = Counter()
        self.of_two = 0
        self._url = url
        self._ended = Event()
        self._failed: Exception | None = None
        self._thread = Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._read()  # what there is before anything changes
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        if kind is not None:
            return
        if self._failed is not None:
            raise self._failed
        self._read()  # and what there is after it

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
    """The rows in Postgres, and which metadata file each table in Iceberg has, as of one moment."""
    locations = connection.execute(_LOCATIONS, {"namespace": lake.NAMESPACE})
    found = {row.table_name: row.metadata_location for row in locations}
    return mart.rows_of(connection), found


def _rows(location: str, *columns: str) -> "pa.Table":
    from pyiceberg.table import StaticTable  # heavy, as below

    return StaticTable.from_metadata(location).scan(selected_fields=columns).to_arrow().select(columns)


def _counted(departures: "pa.Table") -> list[tuple[Any, ...]]:
    """Flights, minutes and the worst delay by carrier, as the other tables have them."""
    found = departures.group_by("carrier").aggregate([("dep_delay", how) for how in ("count", "sum", "max")])
    return sorted(tuple(row.values()) for row in found.select(_AGGREGATES).to_pylist())


_AGGREGATES = ["carrier", "dep_delay_count", "dep_delay_sum", "dep_delay_max"]
