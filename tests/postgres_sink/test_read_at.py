"""Tables in Postgres as of a checkpoint, beside tables of other kinds: `tidegate.read`."""

from random import Random

import duckdb
import pyarrow as pa
import pytest
from marts import values

import tidegate
from tidegate import ParquetSink, PostgresSink
from tidegate.protocol.facts.errors import CheckpointInDoubtError, CheckpointNotRetainedError

BOTH = pytest.mark.parametrize("connection", [None, "marts"])


@pytest.fixture
def base(request, here):
    """The database where the table of the test is."""
    return request.getfixturevalue("there") if request.getfixturevalue("connection") else here


def changes(**rows):
    """Rows of keys; None removes a key."""
    kinds = pa.schema([("k", pa.string()), ("v", pa.int64()), ("_delete", pa.bool_())])
    given = [{"k": key, "v": value or 0, "_delete": value is None} for key, value in rows.items()]
    return pa.Table.from_pylist(given, kinds)


def rows(found, name):
    return sorted(tuple(row.values()) for row in found.arrow()[name].to_pylist())


@BOTH
def test_an_appended_table_has_the_rows_of_a_checkpoints_branch(mart, base, connection):
    shop = mart(orders=PostgresSink("orders", connection=connection))
    for _ in range(3):
        shop.take()
    assert rows(tidegate.read("mart", "orders", checkpoint=2), "orders") == [(1,), (2,)]
    shop.restore(1)
    shop.take()
    assert rows(tidegate.read("mart", "orders"), "orders") == [(1,), (4,)]
    assert rows(tidegate.read(shop.pipeline, checkpoint=3), "orders") == [(1,), (2,), (3,)]
    base.do("INSERT INTO orders VALUES (7, 0)")
    assert rows(tidegate.read("mart"), "orders") == [(1,), (4,), (7,)]
    duck = duckdb.connect()
    tidegate.read("mart").duckdb(duck)
    assert duck.sql("SELECT sum(v) FROM orders").fetchall() == [(12,)]


@BOTH
def test_an_upserted_table_has_what_each_checkpoint_had_made_of_it(mart, base, connection):
    """Whatever was restored, undone, removed and made again in between."""
    shop = mart(totals=PostgresSink("totals", "upsert", connection, key="k"), retained=5)
    draw, state, known = Random(7), {}, {}
    for _ in range(11):
        if known and draw.random() < 0.25:
            checkpoint = draw.choice(sorted(known)[-5:])
            shop.restore(checkpoint)
            state = known[checkpoint]
        else:
            changed = {key: draw.choice([None, draw.randrange(100)]) for key in draw.sample("abcdef", 3)}
            id_ = shop.take(totals=changes(**changed))
            state = {key: value for key, value in (state | changed).items() if value is not None}
            known[id_] = state
        kept = {record.checkpoint_id for record in shop.store.completed("mart")}
        for id_ in draw.sample(sorted(kept), min(2, len(kept))):
            assert rows(tidegate.read("mart", checkpoint=id_), "totals") == sorted(known[id_].items()), id_
    assert len(kept) > 4


def test_what_no_restore_needs_any_more_cannot_be_read(mart, here):
    shop = mart(totals=PostgresSink("totals", "upsert", key="k"), retained=2)
    for value in range(5):
        shop.take(totals=changes(a=value))
    shop.coordinator.clean()
    assert rows(tidegate.read("mart", checkpoint=4), "totals") == [("a", 3)]
    with pytest.raises(CheckpointNotRetainedError, match="since checkpoint 4"):
        tidegate.read("mart", checkpoint=2).arrow()


def test_tables_of_all_kinds_are_of_one_checkpoint_while_some_were_not_told(mart, here, there):
    sinks = {
        "orders": PostgresSink("orders"),
        "totals": PostgresSink("totals", "upsert", key="k"),
        "elsewhere": PostgresSink("elsewhere", connection="marts"),
        "files": ParquetSink("tables/files"),
    }
    shop = mart(**sinks)
    shop.take(totals=changes(a=1))
    id_ = shop.finalize(totals=changes(a=2))
    found = tidegate.read("mart")
    assert found.checkpoint == 1
    assert rows(found, "orders") == rows(found, "elsewhere") == rows(found, "files") == [(1,)]
    assert rows(found, "totals") == [("a", 1)]
    found = tidegate.read("mart", "orders", "totals")
    assert (found.checkpoint, rows(found, "orders"), rows(found, "totals")) == (2, [(1,), (2,)], [("a", 2)])
    with pytest.raises(CheckpointInDoubtError):
        tidegate.read("mart", checkpoint=id_)
    shop.coordinator.notify(id_)
    found = tidegate.read("mart")
    assert rows(found, "orders") == rows(found, "elsewhere") == rows(found, "files") == [(1,), (2,)]


def test_a_replaced_table_is_read_without_the_pipelines_code(mart, here):
    shop = mart(now=PostgresSink("now", "replace"))
    shop.take()
    assert rows(tidegate.read(shop.pipeline), "now") == rows(tidegate.read("mart"), "now") == [(1,)]


def test_types_are_read_as_they_lie_in_the_table(mart, here):
    shop = mart(orders=PostgresSink("orders"))
    here.do(
        "CREATE TABLE public.orders (a smallint, b numeric(12, 2), c numeric, d timestamptz, e timestamp, f date, "
        "g bytea, h jsonb, i uuid, j boolean, k double precision, l text, v bigint, _checkpoint bigint)",
        "GRANT ALL ON public.orders TO tidegate_runner",
        "INSERT INTO public.orders VALUES (1, 12.34, 1.5, '2026-03-01 08:00Z', '2026-03-01 08:00', '2026-03-01', "
        "'\\x00ff', '{\"a\": [1]}', '00000000-0000-0000-0000-00000000000a', true, 2.5, 'ü', 7, 0)",
        "INSERT INTO public.orders (a) VALUES (NULL)",
    )
    shop.take(orders=values(8))
    table = tidegate.read("mart").arrow()["orders"]
    assert [str(kind) for kind in table.schema.types] == [
        "int16", "decimal128(12, 2)", "string", "timestamp[us, tz=UTC]", "timestamp[us]", "date32[day]", "binary",
        "string", "string", "bool", "double", "string", "int64",
    ]  # fmt: skip
    (full,) = [row for row in table.to_pylist() if row["v"] == 7]
    assert (str(full["b"]), full["c"], full["d"].isoformat(), full["g"], full["h"], full["i"][-1], full["l"]) == (
        "12.34", "1.5", "2026-03-01T08:00:00+00:00", b"\x00\xff", '{"a": [1]}', "a", "ü",
    )  # fmt: skip
    assert table.num_rows == 3
