"""`PostgresSource`: what is refused, of a declaration, of a table, and of a database that is away."""

import pyarrow as pa
import pytest
from marts import Server
from outbox_lives import IDS, INDEX, TABLE, OutboxReader, insert

from tidegate import PostgresSource
from tidegate.protocol.facts.errors import (
    MalformedRowsError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)

WRONG = [
    (
        "CREATE TABLE public.t (id bigint)",
        {},
        "it has no column 'xid' with the transaction of each row: ALTER",
    ),
    ("CREATE TABLE public.t (id bigint, xid xid)", {}, "its column 'xid' is xid, and must be xid8"),
    ("CREATE TABLE public.t (id bigint, xid bigint)", {}, "its column 'xid' is bigint, and must be xid8"),
    ("CREATE TABLE public.t (id bigint, xid xid8)", {}, "its column 'xid' may be null: ALTER COLUMN xid SET NOT NULL"),
    ("CREATE TABLE public.t (id bigint, xid xid8 NOT NULL)", {}, "'xid' of t has no default"),
    ("CREATE TABLE public.t (id bigint, xid xid8 NOT NULL DEFAULT '5')", {}, "'xid' of t has the default '5'::xid8"),
    ("CREATE MATERIALIZED VIEW public.t AS SELECT 1 AS id", {}, "it is a materialized view"),
    (TABLE.replace("outbox", "t"), {"schema": "id BIGINT, other INT"}, "it has no column 'other'"),
    (TABLE.replace("outbox", "t"), {"key": "other"}, "it has no column 'other'"),
    (TABLE.replace("outbox", "t"), {"key": "v"}, "its column 'v' of key= may be null: ALTER COLUMN v SET NOT NULL"),
    ("SELECT 1", {}, "there is no such table, or the role may not use its schema"),
]


@pytest.mark.parametrize(("statement", "options", "message"), WRONG, ids=[each[2][:40] for each in WRONG])
def test_a_table_that_cannot_be_read_is_refused(shop, statement, options, message):
    shop.do(statement)
    source = PostgresSource("t", "shop", **options)
    [problem] = source.problems()
    assert message in problem
    with pytest.raises(PipelineDefinitionError) as raised:
        OutboxReader("t", **options).poll()
    assert message in str(raised.value)


def test_a_missing_index_is_warned_of(shop, caplog):
    shop.do(TABLE)
    assert PostgresSource("outbox", "shop").problems() == []
    assert (
        'no index that begins with xid, so each poll reads all of it: CREATE INDEX ON "public"."outbox"' in caplog.text
    )
    caplog.clear()
    shop.do(INDEX)
    assert PostgresSource("outbox", "shop").problems() == []
    assert caplog.text == ""


def test_a_missing_right_is_said_as_a_grant(outbox, monkeypatch):
    outbox.do("DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN PASSWORD 'secret-word'")
    place = outbox.url.partition("@")[2]
    monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", f"postgresql://stranger:secret-word@{place}")
    with pytest.raises(PipelineDefinitionError) as raised:
        OutboxReader().poll()
    assert 'GRANT SELECT ON "public"."outbox" TO "stranger"' in str(raised.value)
    assert "secret-word" not in str(raised.value)
    outbox.do("GRANT SELECT ON public.outbox TO stranger")
    insert(outbox, 1)
    reader = OutboxReader()
    segment = reader.poll()
    assert reader.rows(segment) == [{"id": 1}]
    assert "secret-word" not in repr(reader.make().arrow_reader([segment]))
    outbox.do("REVOKE SELECT ON public.outbox FROM stranger", "DROP ROLE stranger")


def test_a_database_that_is_away_is_polled_again(outbox, monkeypatch):
    insert(outbox, 1)
    reader = OutboxReader()
    url = outbox.url
    monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", "postgresql://nobody:secret-word@127.0.0.1:1/none")
    with pytest.raises(
        SourceUnavailableError, match=r"The database of table public.outbox cannot be reached"
    ) as raised:
        reader.poll()
    assert "secret-word" not in str(raised.value)
    assert reader.make().problems() == [], "the first run finds out"
    monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", url)
    segment = reader.poll()
    found = reader.make().arrow_reader([segment])
    object.__setattr__(found.source, "url", found.source.url.set(port=1))
    with pytest.raises(RuntimeError) as broken:
        list(found.read(IDS))
    assert isinstance(reader.make().explain(broken.value, [segment]), SourceUnavailableError)
    assert reader.rows(segment) == [{"id": 1}]


def test_a_column_that_was_dropped_or_got_another_type(outbox):
    outbox.do("INSERT INTO public.outbox (id, v) VALUES (1, '7')")
    columns = pa.schema([("v", pa.int64())])
    reader = OutboxReader("outbox", "v BIGINT", columns)
    segment = reader.poll()
    assert reader.rows(segment) == [{"v": 7}]
    outbox.do("ALTER TABLE public.outbox ALTER COLUMN v DROP DEFAULT, ALTER COLUMN v TYPE int USING v::int")
    with pytest.raises(RuntimeError) as raised:  # the table was rewritten: each row is a new version
        reader.rows(segment)
    assert isinstance(reader.make().explain(raised.value, [segment]), SourceChangedError)
    outbox.do("INSERT INTO public.outbox (id, v) VALUES (2, 8)")
    assert reader.rows(reader.poll()) == [{"v": 8}]
    outbox.do("ALTER TABLE public.outbox ALTER COLUMN v TYPE text", "INSERT INTO public.outbox (id, v) VALUES (3, 'x')")
    segment = reader.poll()
    with pytest.raises(RuntimeError) as raised:
        reader.rows(segment)
    error = reader.make().explain(raised.value, [segment])
    assert isinstance(error, MalformedRowsError)
    assert "column 'v' is string, and does not fit int64" in str(error)
    outbox.do("ALTER TABLE public.outbox DROP COLUMN v")
    with pytest.raises(PipelineDefinitionError, match="it has no column 'v'"):
        reader.poll()


DECLARED = [
    ({"table": "a.b.c"}, "PostgresSource('a.b.c'): write the table as 'name' or 'schema.name'"),
    ({"table": "tidegate.checkpoints"}, "the schema tidegate is not for tables of users"),
    ({"on_change": "skip"}, "on_change is 'skip', but must be"),
    ({"max_rows": 0}, "max_rows is 0, but must be at least 1"),
    ({"start": "latest"}, "start is 'latest', but must be"),
    ({"start": "7/1 9:5:"}, "start is '7/1 9:5:', but must be"),
    ({"key": ["xid", "id"]}, "key= needs a column, and none is 'xid'"),
]


@pytest.mark.parametrize(("options", "message"), DECLARED, ids=[each[1][:30] for each in DECLARED])
def test_a_wrong_declaration_is_refused(options, message):
    with pytest.raises(PipelineDefinitionError) as raised:
        PostgresSource(**{"table": "outbox", **options})
    assert message in str(raised.value)


def test_it_says_what_it_is_without_secrets(shop):
    assert PostgresSource("outbox", "shop", schema="id BIGINT", max_rows=5).describe() == {
        "type": "PostgresSource", "path": "postgres://shop/public.outbox", "xid": "xid", "start": "earliest",
        "on_change": "fail", "max_rows": 5, "schema": "id BIGINT",
    }  # fmt: skip
    assert PostgresSource("outbox").describe()["path"] == "postgres://tidegate_default/public.outbox"
    assert isinstance(shop, Server)
