"""`PostgresSource`: what is read of a table, whatever its writers do and whatever the table is."""

import copy

import pyarrow as pa
import pytest
from outbox_lives import OutboxReader, insert

from tidegate import PostgresSource
from tidegate.ports import Snapshot
from tidegate.ports.declared_schemas import ddl_of
from tidegate.postgres_source import table_queries
from tidegate.protocol.facts.errors import (
    MalformedRowsError,
    SourceChangedError,
)


def test_a_transaction_that_stays_open_holds_back_its_own_rows_only(outbox):
    reader = OutboxReader()
    assert reader.poll() is None
    with outbox.session() as old, outbox.session() as undone:
        old.execute("INSERT INTO public.outbox (id) VALUES (1)")
        undone.execute("INSERT INTO public.outbox (id) VALUES (2)")
        insert(outbox, 3)
        assert reader.ids() == [3]
        insert(outbox, 4)
        assert reader.ids() == [4]
        old.execute("SAVEPOINT a; INSERT INTO public.outbox (id) VALUES (5); RELEASE a")
        undone.connection.rollback()
        assert reader.poll() is None
        old.connection.commit()
    assert reader.ids() == [1, 5]
    assert reader.poll() is None


def test_a_bounded_poll_goes_through_one_large_transaction_and_then_on(outbox):
    insert(outbox, *range(1, 11))
    reader, source = OutboxReader(max_rows=4), OutboxReader(max_rows=4).make()
    first = reader.poll(source)
    assert (len(reader.rows(first)), source.pending(0).pieces, source.is_behind(0, first)) == (4, 6, True)
    insert(outbox, 11)
    assert reader.ids() == [5, 6, 7, 8]
    assert reader.ids() == [9, 10]
    assert reader.ids() == [11]
    last = reader.make()
    assert reader.poll(last) is None
    assert (last.pending(0).pieces, last.is_behind(0, None)) == (0, False)


def test_a_poll_takes_about_so_many_bytes(outbox):
    outbox.do("INSERT INTO public.outbox (v) SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    outbox.alone("ANALYZE public.outbox")
    reader = OutboxReader()
    end = reader.make().latest_within(0, None, 100_000)
    assert 50 < end["rows"] < 150


def test_ranges_are_read_side_by_side_and_have_all_rows(outbox, monkeypatch):
    monkeypatch.setattr(table_queries, "RANGE", 100)
    with outbox.session() as late:
        late.execute("INSERT INTO public.outbox (id) SELECT * FROM generate_series(1, 350)")
        insert(outbox, 999)
        reader = OutboxReader()
        assert reader.ids() == [999]
        insert(outbox, *range(1000, 1240))
        late.connection.commit()
    segment = reader.poll()
    found = reader.make().arrow_reader([segment])
    assert [each["to"]["rows"] for each in found.ranges] == [100, 100, 100, 100, 100, 90]
    assert sorted(row["id"] for row in reader.rows(segment)) == [*range(1, 351), *range(1000, 1240)]


def test_without_a_key_a_poll_takes_whole_transactions(shop):
    shop.do("CREATE TABLE public.plain (id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id())")
    insert(shop, 1, 2, 3, table="plain")
    insert(shop, 4, table="plain")
    reader = OutboxReader("plain", max_rows=2)
    assert (reader.ids(), reader.ids()) == ([1, 2, 3], [4])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("text", ["", "a'b", "a\\b", "%s %", "ä\n", "{x:1}"]),
        ("timestamptz", ["2026-03-29 01:30:00+01", "2026-03-29 03:30:00.000001+02"]),
        ("double precision", ["-0.1", "1e300", "NaN"]),
        ("numeric", ["1.10", "1.1000000000000000000000001"]),
        ("uuid", ["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000001"]),
    ],
)
def test_the_key_has_any_type(shop, column, values):
    """Whatever it is called."""
    shop.do(
        f'CREATE TABLE public.keyed ("k:1%" {column}, part int, id bigint, xid xid8 NOT NULL DEFAULT '
        'pg_current_xact_id(), PRIMARY KEY ("k:1%", part))'
    )
    with shop.session() as cursor:
        for number, value in enumerate(values):
            for part in (0, 1):
                cursor.execute("INSERT INTO public.keyed VALUES (%s, %s, %s)", [value, part, 2 * number + part])
        cursor.connection.commit()
    assert OutboxReader("keyed", max_rows=1).drain() == list(range(2 * len(values)))


def test_views_and_partitioned_tables(shop):
    shop.do(
        "CREATE TABLE public.parted (id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)) "
        "PARTITION BY RANGE (id)",
        "CREATE TABLE public.low PARTITION OF public.parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE public.high PARTITION OF public.parted FOR VALUES FROM (10) TO (99)",
        "CREATE INDEX ON public.parted (xid, id)",
        "CREATE VIEW public.even AS SELECT id, xid FROM public.parted WHERE id % 2 = 0",
    )
    insert(shop, 1, 2, 11, 12, table="parted")
    insert(shop, 13, 14, table="high")
    parted, even = OutboxReader("parted", max_rows=2), OutboxReader("even", max_rows=2, key="id")
    assert parted.drain() == [1, 2, 11, 12, 13, 14]
    assert even.drain() == [2, 12, 14]
    shop.do("ALTER TABLE public.high ALTER COLUMN xid DROP DEFAULT")
    [problem] = parted.make().problems()
    assert "column 'xid' of high has no default" in problem
    assert "ALTER TABLE high ALTER COLUMN xid SET DEFAULT pg_current_xact_id()" in problem
    shop.do("CREATE VIEW public.torn AS SELECT nullif(id, 1) AS id, xid FROM public.parted")
    shop.do("ALTER TABLE public.high ALTER COLUMN xid SET DEFAULT pg_current_xact_id()")
    with pytest.raises(MalformedRowsError, match=r"A row of view public.torn has null in one of xid, id"):
        OutboxReader("torn", key="id").poll()


def test_what_others_delete_or_update_after_the_poll_is_found_out(outbox):
    insert(outbox, 1, 2, 3, 4)
    reader = OutboxReader()
    outbox.do("UPDATE public.outbox SET v = 'before' WHERE id = 1", "DELETE FROM public.outbox WHERE id = 2")
    start, segment = reader.position, reader.poll()
    assert sorted(row["id"] for row in reader.rows(segment)) == [1, 3, 4], "what came before the poll is how it was"
    taken = reader.position
    outbox.do("UPDATE public.outbox SET v = 'after' WHERE id = 3")
    with pytest.raises(RuntimeError) as raised:
        reader.rows(segment)
    error = reader.make().explain(raised.value, [segment])
    assert isinstance(error, SourceChangedError)
    assert "updated after they were polled" in str(error)
    assert sorted(row["id"] for row in reader.rows(segment, on_change="ignore")) == [1, 3, 4]
    outbox.do("DELETE FROM public.outbox WHERE id IN (1, 3)")
    with pytest.raises(RuntimeError) as raised:
        reader.rows(segment)
    assert "has 1 of 3 rows that this checkpoint reads" in str(reader.make().explain(raised.value, [segment]))
    since = reader.make().read_since(0, start, taken, None)
    assert (since.pieces, since.missing) == (1, ("2 rows of table public.outbox",))
    assert reader.make().read_since(0, taken, taken, None).pieces == 0


def test_the_column_comes_to_a_table_that_is_there(shop):
    shop.do("CREATE TABLE public.old (id bigint PRIMARY KEY, v text)", "CREATE TABLE public.beside (v int)")
    with shop.session() as long:
        long.execute("INSERT INTO public.beside VALUES (1)")
        insert(shop, 1, 2, 3, table="old")
        [file] = shop.rows("SELECT pg_relation_filenode('public.old')")
        shop.do("ALTER TABLE public.old ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id()")
        assert shop.rows("SELECT pg_relation_filenode('public.old')") == [file], "the table was rewritten"
        insert(shop, 4, table="old")
        reader = OutboxReader("old", max_rows=2)
        assert reader.ids() == [1, 2]
        segment = reader.poll()
        assert sorted(row["id"] for row in reader.rows(segment)) == [3, 4]
        shop.do("UPDATE public.old SET v = 'other' WHERE id = 3")
        with pytest.raises(RuntimeError) as raised:
            reader.rows(segment)
    assert "updated after they were polled" in str(reader.make().explain(raised.value, [segment]))


def test_rewriting_the_table_changes_no_row(outbox):
    insert(outbox, 1, 2)
    reader = OutboxReader()
    segment = reader.poll()
    outbox.alone("VACUUM FREEZE public.outbox", "VACUUM FULL public.outbox", "CLUSTER public.outbox USING outbox_pkey")
    assert [row["id"] for row in reader.rows(segment)] == [1, 2]
    outbox.do("ALTER TABLE public.outbox ADD COLUMN more int DEFAULT 5", "ALTER TABLE public.outbox DROP COLUMN v")
    assert [row["id"] for row in reader.rows(segment)] == [1, 2]


def test_rows_of_another_cluster_are_found_out(outbox):
    reader = OutboxReader()
    outbox.do("INSERT INTO public.outbox (id, xid) VALUES (1, '4000000000')")
    with pytest.raises(SourceChangedError, match="has a row of transaction 4000000000, and the database is at"):
        reader.poll()
    outbox.do("UPDATE public.outbox SET xid = '0'")
    assert reader.ids() == [1]


def with_position(reader, **other):
    changed = copy.deepcopy(reader.position.position)
    changed["to"] |= other
    moved = OutboxReader()
    moved.position = Snapshot((), changed)
    return moved


def test_another_cluster_is_refused_until_somebody_says_where_it_goes_on(outbox):
    insert(outbox, 1)
    reader = OutboxReader()
    assert reader.ids() == [1]
    here = reader.position.position["to"]
    system, seen = here["cluster"].partition("/")[0], here["seen"]
    insert(outbox, 2)

    moved = with_position(reader, cluster="17/1")
    with pytest.raises(SourceChangedError, match="mean nothing in another") as raised:
        moved.poll()
    assert f'start="{system}/1 <snapshot> after 17/1 {seen}"' in str(raised.value)
    outbox.do("UPDATE public.outbox SET xid = pg_current_xact_id()")
    [now] = outbox.rows("SELECT pg_current_snapshot()::text")
    insert(outbox, 3)
    start = f"{system}/1 {now} after 17/1 {seen}"
    assert moved.ids(start=start) == [3]
    insert(outbox, 4)
    assert moved.ids(start=start) == [4]
    older = with_position(reader, cluster="17/1", seen="5:5:")
    with pytest.raises(SourceChangedError, match="mean nothing in another"):
        older.poll(start=start)
    assert OutboxReader(start=start).ids() == [3, 4]
    assert OutboxReader(start=f"{system}/1 {now}").ids() == [3, 4]
    with pytest.raises(SourceChangedError, match="is cluster"):
        OutboxReader(start=f"17/1 {now}").poll()


def test_a_database_that_has_gone_back_is_refused(outbox):
    insert(outbox, 1)
    reader = OutboxReader()
    assert reader.ids() == [1]
    ahead = with_position(reader, seen="9000000:9000000:")
    with pytest.raises(SourceChangedError, match="has gone back: it is at transaction"):
        ahead.poll()


def test_the_columns_are_the_tables_if_none_are_given(shop):
    shop.do(
        "CREATE TYPE public.mood AS ENUM ('good')",
        "CREATE TYPE public.pair AS (a int, b text)",
        "CREATE TABLE public.typed (id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), b boolean, s smallint, "
        "i int, r real, d double precision, t varchar(9), c char(3), n numeric(12,3), m numeric, y bytea, day date, "
        "at timestamp(3), z timestamptz, h time, l int[], j jsonb, o public.mood, p public.pair, u uuid, v interval)",
        "INSERT INTO public.typed VALUES (1, DEFAULT, true, 2, 3, 0.5, 0.25, 'x', 'ab', 1.5, 1e20, '\\x01', "
        "'2026-11-28', '2026-11-28 10:00', '2026-11-28 10:00+01', '10:00', '{1,NULL}', '{\"a\": [1]}', 'good', "
        "'(1,x)', '00000000-0000-0000-0000-000000000001', '1 day 02:00')",
    )
    source = PostgresSource("typed", "shop")
    assert ddl_of(source.schema) == (
        "`id` BIGINT, `xid` BIGINT, `b` BOOLEAN, `s` SMALLINT, `i` INT, `r` FLOAT, `d` DOUBLE, `t` STRING, `c` STRING, "
        "`n` DECIMAL(12,3), `m` STRING, `y` BINARY, `day` DATE, `at` TIMESTAMP_NTZ, `z` TIMESTAMP, `h` STRING, "
        "`l` STRING, `j` STRING, `o` STRING, `p` STRING, `u` STRING, `v` STRING"
    )
    reader = OutboxReader("typed", None, pa.schema([(name, pa.string()) for name in "tcmhljopuv"]))
    assert reader.rows(reader.poll()) == [
        {"t": "x", "c": "ab", "m": "100000000000000000000", "h": "10:00:00", "l": "[1, null]", "j": '{"a": [1]}',
         "o": "good", "p": '{"a": 1, "b": "x"}', "u": "00000000-0000-0000-0000-000000000001", "v": "1 day 02:00:00"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value"), [("date", "infinity"), ("timestamptz", "-infinity"), ("timestamp", "0044-03-15 BC")]
)
def test_times_that_spark_does_not_have_are_refused(shop, column, value):
    shop.do(
        f"CREATE TABLE public.timed (id bigint, at {column}, xid xid8 NOT NULL DEFAULT pg_current_xact_id())",
        f"INSERT INTO public.timed VALUES (1, '{value}')",  # noqa: S608
    )
    reader = OutboxReader("timed")
    kind = {"date": "DATE", "timestamptz": "TIMESTAMP", "timestamp": "TIMESTAMP_NTZ"}[column]
    segment = reader.poll(schema=f"id BIGINT, at {kind}")
    with pytest.raises(RuntimeError) as raised:
        reader.rows(segment, schema=f"id BIGINT, at {kind}")
    error = reader.make(schema=f"id BIGINT, at {kind}").explain(raised.value, [segment])
    assert isinstance(error, MalformedRowsError)
    assert "a time in column 'at' that is infinite or before the year 1" in str(error)
