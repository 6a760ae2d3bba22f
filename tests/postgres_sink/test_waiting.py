"""Others at the same table or database: who waits for whom, for how long, and what is said."""

import threading

import pytest
from marts import values
from sqlalchemy.engine import make_url

from tidegate import PostgresSink
from tidegate.cli.exit_codes import ExitCode, exit_code_of
from tidegate.protocol.facts.errors import ConfigurationError, SinkUnavailableError

TABLE = "CREATE TABLE orders (v bigint, _checkpoint bigint)"
TO_RUNNER = "GRANT ALL ON orders TO tidegate_runner"


def test_a_strangers_lock_is_waited_for_and_then_said_and_the_pipelines_row_is_free_meanwhile(impatient, here):
    shop = impatient(orders=PostgresSink("orders"))
    shop.take()
    id_ = shop.validated()
    locked_for = []
    with here.session() as stranger:
        stranger.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        failed = []

        def finalize():
            try:
                shop.coordinator.finalize(id_)
            except SinkUnavailableError as error:
                failed.append(error)

        waiting = threading.Thread(target=finalize)
        waiting.start()
        while waiting.is_alive():
            locked_for += here.rows(
                "SELECT count(*) FROM pg_locks WHERE relation = 'tidegate.pipelines'::regclass "
                "AND mode = 'RowShareLock' AND pid IN (SELECT pid FROM pg_locks WHERE NOT granted)"
            )
        waiting.join()
    (error,) = failed
    assert error.retries is None
    assert set(locked_for) == {0}
    said = str(error)
    assert said.startswith("Table public.orders did not take the rows of checkpoint 2: canceling statement due to lock")
    assert '(relation = \'"public"."orders"\'::regclass), pg_stat_activity its state' in said
    shop.coordinator.finalize(id_)
    assert here.rows("SELECT v FROM orders ORDER BY v") == [1, 2]


def test_a_reader_and_a_second_writer_hold_up_nobody(impatient, here):
    shop = impatient(orders=PostgresSink("orders"))
    shop.take()
    with here.session() as reader, here.session() as writer:
        reader.execute("SELECT v FROM orders")
        writer.execute("INSERT INTO orders VALUES (70, 0)")
        shop.take()
        reader.execute("SELECT v FROM orders ORDER BY v")
        assert reader.fetchall() == [(1,), (2,)]
        writer.connection.commit()
    assert here.rows("SELECT v FROM orders ORDER BY v") == [1, 2, 70]
    shop.restore(1)
    assert here.rows("SELECT v FROM orders ORDER BY v") == [1, 70]  # a writer's own rows stay


def test_a_deadlock_with_another_transaction_is_repeated(mart, here):
    here.do(TABLE, TO_RUNNER, "CREATE TABLE log (n int)", "GRANT ALL ON log TO tidegate_runner")
    here.do(
        "CREATE FUNCTION once() RETURNS trigger AS $$ BEGIN IF (SELECT last_value FROM tries) < 2 THEN "
        "PERFORM nextval('tries'); RAISE SQLSTATE '40P01' USING MESSAGE = 'deadlock detected'; END IF; "
        "RETURN NEW; END $$ LANGUAGE plpgsql SECURITY DEFINER SET search_path = public",
        "CREATE SEQUENCE tries",
        "SELECT nextval('tries')",
        "CREATE TRIGGER once BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION once()",
    )
    shop = mart(orders=PostgresSink("orders"))
    shop.take()
    assert here.rows("SELECT v FROM orders") == [1]
    assert here.rows("SELECT last_value FROM tries") == [2]


@pytest.mark.parametrize("connection", [None, "marts"])
def test_a_limit_of_the_server_is_named_and_a_retry_is_worth_while(mart, here, request, connection):
    base = request.getfixturevalue("there") if connection else here
    base.do(TABLE, TO_RUNNER)
    full = "RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file \"base/1\": No space left on device';"
    base.do(
        f"CREATE FUNCTION full_() RETURNS trigger AS $$ BEGIN {full} END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER full_ BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION full_()",
    )
    shop = mart(orders=PostgresSink("orders", connection=connection))
    with pytest.raises(SinkUnavailableError, match="No space left on device") as raised:
        shop.take()
    assert "Make room in the database, or raise that limit" in str(raised.value)
    assert raised.value.retries is None
    assert exit_code_of(raised.value) is ExitCode.UNAVAILABLE


def test_a_limit_that_is_reached_while_rows_are_loaded(mart, there, postgres_server, monkeypatch):
    """`temp_file_limit`, which really is reached: the rows of a key are looked for twice, by sorting them."""
    name = make_url(there.url).database
    there.do(f"ALTER DATABASE {name} SET temp_file_limit = '64kB'", f"ALTER DATABASE {name} SET work_mem = '64kB'")
    there.do("CREATE SCHEMA tidegate_sinks AUTHORIZATION tidegate_runner")
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", postgres_server.running_url(str(name)))
    shop = mart(orders=PostgresSink("orders", mode="upsert", key="k", connection="marts"))
    with pytest.raises(SinkUnavailableError, match='temporary file size exceeds "temp_file_limit"') as raised:
        shop.take(orders=values(*range(200_000), name="k"))
    assert str(raised.value).startswith(
        "Table public.orders did not take the rows of checkpoint 1: temporary file size"
    )
    assert "readers of the table see the rows before it" in str(raised.value)


def test_an_administrators_statement_timeout_is_named(mart, here, there, postgres_server, monkeypatch):
    name = make_url(there.url).database
    there.do(f"ALTER DATABASE {name} SET statement_timeout = '300ms'", TABLE)
    there.do(
        "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER slow BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    shop = mart(orders=PostgresSink("orders", connection="marts"))
    with pytest.raises(SinkUnavailableError, match="canceling statement due to statement timeout") as raised:
        shop.take()
    assert "Raise statement_timeout for this role" in str(raised.value)


def test_a_database_that_is_away_for_a_while_is_retried_and_its_password_is_in_no_text(
    mart, there, monkeypatch, caplog
):
    good = there.url
    away = (
        make_url(good).set(port=1, username="mart_owner", password="s3cret-pass").render_as_string(hide_password=False)
    )
    shop = mart(orders=PostgresSink("orders", connection="marts"))
    shop.take()
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", away)
    with pytest.raises(SinkUnavailableError, match="cannot be reached") as raised:
        shop.take()
    assert raised.value.retries is None
    said, error = [], raised.value
    while error is not None:
        said.append(str(error))
        error = error.__cause__
    assert "s3cret-pass" not in "".join(said) + caplog.text
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", good)
    shop.take()
    assert there.rows("SELECT count(*) FROM orders") == [2]


def test_no_secret_is_in_what_describes_the_sink(there):
    sink = PostgresSink("orders", connection="marts")
    password = make_url(there.url).password
    assert password not in f"{sink!r} {sink.describe()}"
    assert sink.describe()["path"] == "postgres://marts/public.orders"


def test_a_connection_of_airflow_is_found_by_its_name(there, monkeypatch, mart, home):
    url = there.url.replace("postgresql://", "postgres://")
    monkeypatch.delenv("TIDEGATE_CONNECTION_MARTS")
    monkeypatch.setenv("AIRFLOW_CONN_MARTS", url)
    monkeypatch.setenv("AIRFLOW_HOME", str(home / "airflow"))
    mart(orders=PostgresSink("orders", connection="marts")).take()
    assert there.rows("SELECT v FROM orders") == [1]
    monkeypatch.setenv("AIRFLOW_CONN_MARTS", "mysql://somebody:s3cret@host/marts")
    with pytest.raises(ConfigurationError, match="connection 'marts' is of type 'mysql', but must lead to") as raised:
        mart(name="other", orders=PostgresSink("orders", connection="marts")).take()
    assert "s3cret" not in str(raised.value)
