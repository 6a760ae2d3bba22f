"""Two Iceberg tables and one in Postgres change in one transaction: a reader in a loop never sees two checkpoints."""

from threading import Event, Thread

from marts import values
from pyiceberg.table import StaticTable

from tidegate import IcebergSink, PostgresSink

CATALOG = "SELECT table_name, metadata_location FROM tidegate_iceberg.iceberg_tables"


class Reader(Thread):
    """Reads all three tables in one transaction, again and again."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ended, self.seen, self.wrong = server, Event(), [], []

    def run(self):
        while not self.ended.is_set():
            try:
                self.look()
            except Exception as error:
                self.wrong.append(repr(error))
                return

    def look(self):
        with self.server.session() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(CATALOG)
            tables = dict(cursor.fetchall())
            cursor.execute("SELECT v FROM rows")
            rows = sorted(v for (v,) in cursor.fetchall())
        one = sorted(StaticTable.from_metadata(tables["one"]).scan().to_arrow()["v"].to_pylist())
        latest = StaticTable.from_metadata(tables["latest"]).scan().to_arrow()["v"].to_pylist()
        self.seen.append(latest[0])
        if one != rows or latest != rows[-1:]:
            self.wrong.append((rows, one, latest))


def test_a_reader_sees_one_checkpoint_in_all_tables(here_and_lake, mart):
    tables = {"one": IcebergSink("db.one"), "latest": IcebergSink("db.latest", "latest"), "rows": PostgresSink("rows")}
    of = mart(**tables, retained=3)
    of.take(**dict.fromkeys(tables, values(1)))
    reader = Reader(here_and_lake)
    reader.start()
    for number in range(2, 16):
        of.take(**dict.fromkeys(tables, values(number)))
        if number == 8:
            of.restore(7)
            of.restore()
    reader.ended.set()
    reader.join(60)
    assert not reader.wrong
    assert len(set(reader.seen)) > 3
