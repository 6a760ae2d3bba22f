"""Postgres is killed with -9 at every moment of a commit that changes a table: then the step is repeated, and the table
has what it would have without."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from fatal_proxies import FatalProxy, Moment
from marts import Mart, Server
from public_directories import public_directory
from sizes import later

from tidegate import PostgresSink
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import FinalizeError, SinkError, UnavailableError, UnknownOutcomeError

#: An INSERT takes a while.
SLOW = (
    "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER slow AFTER INSERT ON results FOR EACH STATEMENT EXECUTE FUNCTION slow()",
)
#: What Airflow repeats a step after.
REPEATED = (SinkError, UnavailableError, UnknownOutcomeError, FinalizeError)
OPTIONS: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"key": "k"}, "replace": {}}
#: By mode, the rows as of a checkpoint.
SHOWN: dict[str, Callable[[int], list[tuple[int, int]]]] = {
    "append": lambda n: sorted((k, i) for i in range(1, n + 1) for k in (1, 10 + i)),
    "upsert": lambda n: sorted([(1, n), *((10 + i, i) for i in range(1, n + 1))]),
    "replace": lambda n: [(1, n), (10 + n, n)],
}
SAMPLE = {
    (None, "append", Moment.UNANSWERED),
    (None, "upsert", Moment.WORKING),
    (None, "replace", Moment.ENDED),
    ("marts", "upsert", Moment.UNANSWERED),
    ("marts", "replace", Moment.LOADED),
}
CASES = [
    case if case in SAMPLE else later(*case)
    for case in ((where, mode, moment) for where in (None, "marts") for mode in SHOWN for moment in Moment)
]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """One of these tests' own, which they kill."""
    with public_directory("tidegate-killed-") as home:
        server = EmbeddedPostgres(home / "postgres", fsync=False)
        server.start()
        yield server


class Runs:
    """Processes that run the pipeline one after another, on a database of its own, by way of a proxy."""

    def __init__(self, proxy: FatalProxy, home: Path, store_url: str, sink: PostgresSink) -> None:
        self.proxy, self._home, self._url, self._sink = proxy, home, store_url, sink

    def take(self, number: int) -> None:
        """A checkpoint; what fails is repeated by the next process."""
        with self._process() as shop:
            rows = pa.table({"k": pa.array([1, 10 + number]), "v": pa.array([number] * 2)})
            id_ = shop.validated(table=rows)
        assert id_ == number
        for step in ("finalize", "notify"):
            self._repeat(lambda shop, step=step: getattr(shop.coordinator, step)(id_))

    def restore(self, checkpoint_id: int | None = None) -> None:
        with self._process() as shop:
            shop.restore(checkpoint_id)

    def _repeat(self, step: Callable[[Mart], Any]) -> None:
        for _ in range(5):
            with self._process() as shop, suppress(*REPEATED):
                step(shop)
                return
        raise AssertionError("it fails again and again")

    def _process(self) -> Any:
        self.proxy.revive()
        store = PostgresCheckpointStore(connect(self._url))
        return closing(_Closing(store, self._home, self._sink))


class _Closing(Mart):
    def __init__(self, store: PostgresCheckpointStore, home: Path, sink: PostgresSink) -> None:
        super().__init__(store, home, table=sink)

    def close(self) -> None:
        self.store.close()


@pytest.fixture
def proxy(server: EmbeddedPostgres) -> Iterator[FatalProxy]:
    server.start()
    with closing(FatalProxy(server)) as proxy:
        yield proxy


@pytest.mark.parametrize(("connection", "mode", "moment"), CASES)
def test_the_table_has_what_it_would_have_without(
    server: EmbeddedPostgres,
    proxy: FatalProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    connection: str | None,
    mode: Any,
    moment: Moment,
) -> None:
    name = f"d{uuid4().hex[:12]}"
    server.create_database(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    if connection is None:
        upgrade(server.url(name))
        store_url = proxy.url(server.running_url(name))
    else:
        store_url = request.getfixturevalue("running_url")
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", store_url)
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", proxy.url(server.url(name)))
    sink = PostgresSink("results", mode, connection, **OPTIONS[mode])
    runs, shown = Runs(proxy, tmp_path, store_url, sink), SHOWN[mode]

    def rows() -> list[Any]:
        proxy.revive()
        return Server(server.url(name)).rows("SELECT k, v FROM results ORDER BY k, v")

    runs.take(1)
    if moment is Moment.WORKING and mode != "replace":
        Server(server.url(name)).do(*SLOW)
    proxy.moment = moment
    runs.take(2)
    assert proxy.deaths == 1
    assert rows() == shown(2)
    runs.take(3)
    assert rows() == shown(3)
    for target, shows in ((1, 1), (None, 3), (2, 2)):
        runs.restore(target)
        assert rows() == shown(shows)
