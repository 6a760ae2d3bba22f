"""Airflow's real authentication on a database of its own, without its server; reports, and pages in a browser."""

import asyncio
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import airflow_home  # noqa: F401 - before anything imports Airflow
import httpx
import psycopg2
import pytest
from airflow_dags import schedule
from browsers import Watched, chromium
from databases import Databases
from described import Description, path_of
from fastapi import FastAPI
from page_server import PageServer
from routes import PLAN
from shown_pipelines import HOSTILE, ShownKeys, ShownPipeline
from sqlalchemy.engine import make_url
from worlds import MemoryStorage

from tidegate.clock import SystemClock
from tidegate.coordination.all_operations import AllOperations
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import CheckpointKind, SubtaskId
from tidegate.protocol.observing.lag import SourceLag
from tidegate.reading.readings import Readings
from tidegate.ui.shared import SharedAnswers

Get = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Airflow's metadata on a new SQLite file, and its default auth manager with a signing key of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Airflow imports a deprecated test client
        from airflow import settings
        from airflow.api_fastapi.app import create_auth_manager
        from airflow.api_fastapi.core_api import security  # noqa: F401
        from airflow.models import import_all_models
        from airflow.models.base import Base

        import_all_models()

    database = tmp_path_factory.mktemp("airflow") / "airflow.db"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{database}")
        environment.setenv(
            "AIRFLOW__API_AUTH__JWT_SECRET", "a signing key for tests that is long enough for SHA-512 " * 2
        )
        settings.configure_vars()
        settings.configure_orm()
        Base.metadata.create_all(settings.engine)
        create_auth_manager()
        yield
        settings.dispose_orm(do_log=False)
    settings.configure_vars()
    settings.configure_orm()


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    """The plugin that the entry point of the installed package names."""
    return importlib.import_module("tidegate.airflow.plugin")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Reports as a validated checkpoint leaves them, and a secret beside them."""
    page = tmp_path / "docs" / "flight_delays" / "chk-7" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!DOCTYPE html><p>minutes must not be negative</p>")
    (page.parent / "notes.bin").write_text("not a type that is served")
    (page.parent / ".hidden.html").write_text("half written")
    (tmp_path / "secret.html").write_text("secret")
    (page.parent / "link.html").symlink_to(tmp_path / "secret.html")
    (page.parent / "circle.html").symlink_to(page.parent / "circle.html")
    (page.parent / "folder.html").mkdir()
    (tmp_path / "docs" / "flight_delays" / "chk-8").symlink_to(tmp_path)
    return tmp_path / "docs"


@pytest.fixture(scope="module")
def app(airflow: None, plugin: ModuleType) -> FastAPI:
    """The plugin's. To make it costs more than most tests of it."""
    plugin._app.cache_clear()
    made: FastAPI = plugin._app()
    return made


@pytest.fixture
def get(
    app: FastAPI, plugin: ModuleType, docs: Path, running_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Get]:
    """Ask for a path, by default with GET, of an app that mounts the plugin's apps as Airflow's API server does."""
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    app.state.docs = docs
    app.state.shared = SharedAnswers()
    server = FastAPI()
    for mounted in plugin.TidegatePlugin.fastapi_apps:
        server.mount(mounted["url_prefix"], mounted["app"])

    def get_(
        path: str, token: str | None = None, cookie: str | None = None, method: str = "GET", **options: Any
    ) -> httpx.Response:
        async def request() -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            headers |= options.pop("headers", {})
            cookies = {"_token": cookie} if cookie else {}
            transport = httpx.ASGITransport(server)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://airflow", headers=headers, cookies=cookies
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(request())

    yield get_
    app.state.asking.close()


@pytest.fixture
def token(airflow: None) -> Callable[[str | None], str]:
    """A token that Airflow signed for a user of some role."""
    return lambda role: _sign(role, 60)


@pytest.fixture
def expired(airflow: None) -> str:
    """A token as it was a minute too long ago."""
    return _sign("admin", -60)


@pytest.fixture
def described(app: FastAPI, get: Get, token: Callable[[str | None], str]) -> Description:
    """What the API says of itself."""
    if not hasattr(app.state, "described"):
        app.state.described = Description(get("/tidegate/api/v1/openapi.json", token=token("viewer")).json())
    described: Description = app.state.described
    return described


@pytest.fixture
def ask(get: Get, described: Description, token: Callable[[str | None], str]) -> Callable[[str], httpx.Response]:
    """Ask as a viewer. What the API answers with is held against its own description."""
    viewer = token("viewer")

    def ask_(path: str) -> httpx.Response:
        response = get(path, token=viewer)
        if path.startswith("/tidegate/api/v1/") and response.status_code == 200:
            assert described.wrong(path_of(path), response.json()) == []
        return response

    return ask_


@pytest.fixture
def signed(airflow: None) -> Callable[[str], str]:
    """The same for a cookie that lasts as long as a browser is looked at."""
    return lambda role: _sign(role, 3600)


def _sign(role: str | None, seconds: int) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username="somebody", role=role)
    signed: str = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=seconds)
    return signed


@dataclass
class Site:
    """The pages over real HTTP, behind Airflow's login, on a database with pipelines that have run."""

    server: PageServer
    store: PostgresCheckpointStore
    storage: MemoryStorage
    shown: dict[str, ShownPipeline]
    cookie: str
    database: str
    postgres: EmbeddedPostgres
    readings: Readings

    def pages(self) -> dict[str, str]:
        """One address of every kind of page."""
        flights, latest = "pipelines/flight_delays", self.latest("flight_delays")
        tabs = ("history", "summary", "configuration", "sources", "state", "tables", "quality", "audit")
        return {
            "pipelines": "",
            "overview": flights,
            **{tab: f"{flights}/{tab}" for tab in tabs},
            "state of an operator": f"{flights}/state?operator=carriers",
            "files that were read": f"{flights}/sources?source=flights&split=1",
            "hostile files": "pipelines/returns/sources?source=flights",
            "key": f"{flights}/state?operator=carriers&key=AA&key=1",
            "hostile key": "pipelines/returns/state?operator=carriers&key=%3Cimg%20src%3Dx%3E&key=x",
            "filtered history": f"{flights}/history?status=FAILED&kind=CHECKPOINT",
            "running checkpoint": f"{flights}/checkpoints/{latest}",
            "failed checkpoint": f"{flights}/checkpoints/{latest - 1}",
            "savepoint, opened": f"{flights}/checkpoints/{latest - 2}?operator=carriers",
            "files": f"{flights}/checkpoints/{latest - 2}/files",
            "hostile overview": "pipelines/returns",
            "hostile audit": "pipelines/returns/audit",
            "hostile checkpoint": f"pipelines/returns/checkpoints/{self.latest('returns')}?operator=flights",
            "plan": f"{flights}/restore-plans/{PLAN}",
            "hostile plan": f"pipelines/returns/restore-plans/{PLAN}",
            "dag": "dags/every%20hour",
            "dag run": "dags/every%20hour/runs/scheduled__2026-01-01T00:00:00+00:00",
            "foreign dag": "dags/foreign",
        }

    def latest(self, pipeline: str) -> int:
        return self.store.history(pipeline, 1)[0].checkpoint_id

    def url(self, path: str = "") -> str:
        return f"{self.server.url}/{path}"

    @contextmanager
    def without_database(self) -> Iterator[None]:
        """Postgres has cut every connection to the database, and refuses new ones."""
        with closing(psycopg2.connect(self.postgres.url("postgres").replace("+psycopg2", ""))) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false")
            try:
                cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
                cursor.execute(cut, [self.database])
                yield
            finally:
                cursor.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS true")


@pytest.fixture(scope="module")
def site(
    airflow: None, databases: Databases, postgres_server: EmbeddedPostgres, tmp_path_factory: Any
) -> Iterator[Site]:
    from tidegate.ui.app import create_app

    name = databases.take()
    store = PostgresCheckpointStore(connect(make_url(postgres_server.running_url(name))))
    storage = MemoryStorage()
    engine = connect(make_url(postgres_server.running_url(name)))
    readings = Readings(engine, lambda: datetime.now(UTC), lambda: storage, ShownKeys())
    schedule("every hour", datetime.now(UTC) + timedelta(minutes=40, seconds=30))
    schedule("paused", datetime.now(UTC), is_paused=True)
    operations = AllOperations(store, storage, SystemClock(), lambda: None)
    app = create_app(tmp_path_factory.mktemp("docs"), lambda: readings, open_operations=lambda: operations)
    server = PageServer(app)
    server.start()
    yield Site(server, store, storage, _fill(store, storage), _sign("admin", 3600), name, postgres_server, readings)
    readings.close()
    server.stop()
    store.close()
    databases.give_back(name)


def _fill(store: PostgresCheckpointStore, storage: MemoryStorage) -> dict[str, ShownPipeline]:
    flights = ShownPipeline(store, storage)
    flights.take(7)
    flights.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT, name="before-migration", note="for the auditors")
    flights.fail_validation()
    flights.clock.time = datetime.now(UTC) - timedelta(seconds=20)
    flights.snapshot(flights.trigger(), without=[SubtaskId("carriers", 2)])
    with store.transaction(flights.name) as tx:
        tx.record_lag([SourceLag("flights", 12, "files", 48_000_000, flights.clock.now(), {"0": 5, "1": 7})])
        tx.record_dag("every hour", flights.clock.now())
        tx.record_dag("by hand", flights.clock.now())
        tx.record_dag("paused", flights.clock.now())
    orders = ShownPipeline(store, storage, "orders", ago=timedelta(minutes=30))
    orders.take(2, 60)
    hostile = ShownPipeline(store, storage, "returns", ago=timedelta(hours=1), text=HOSTILE)
    hostile.take(2)
    hostile.complete(request=HOSTILE, kind=CheckpointKind.SAVEPOINT, note=HOSTILE)
    hostile.fail_validation(3)
    flights.plan(PLAN, 8)
    hostile.plan(PLAN, 1)
    return {one.name: one for one in (flights, orders, hostile)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


Open = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Any, site: Site) -> Iterator[Open]:
    """A page in a browser of its own, logged in; `also` opens another tab of the same one."""
    contexts: list[Any] = []

    def open_(
        path: str = "", *, scheme: str = "light", width: int = 1280, also: Watched | None = None, **options: Any
    ) -> Watched:
        if also is None:
            size = {"width": width, "height": 800}
            context = browser.new_context(viewport=size, color_scheme=scheme, **options)
            context.add_cookies([{"name": "_token", "value": site.cookie, "url": site.server.address}])
            contexts.append(context)
        else:
            context = also.page.context
        watched = Watched(context)
        watched.page.goto(site.url(path))
        return watched

    yield open_
    for context in contexts:
        context.close()
