"""Airflow's real authentication on a database of its own, without a server, and reports to serve."""

import asyncio
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from fastapi import FastAPI

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
    """The plugin file, imported as Airflow does: from its path."""
    path = Path(__file__).parents[2] / "plugins" / "tidegate_plugin.py"
    spec = importlib.util.spec_from_file_location("tidegate_plugin_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.fixture
def get(
    airflow: None, plugin: ModuleType, docs: Path, running_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Get]:
    """GET a path from an app that mounts the plugin's apps as Airflow's API server does."""
    monkeypatch.setenv("TIDEGATE_DOCS", str(docs))
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    plugin._app.cache_clear()
    server = FastAPI()
    for app in plugin.TidegatePlugin.fastapi_apps:
        server.mount(app["url_prefix"], app["app"])

    def get_(path: str, token: str | None = None, cookie: str | None = None) -> httpx.Response:
        async def request() -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            cookies = {"_token": cookie} if cookie else {}
            transport = httpx.ASGITransport(server)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://airflow", headers=headers, cookies=cookies
            ) as client:
                return await client.get(path)

        return asyncio.run(request())

    yield get_
    plugin._app().state.asking.close()


@pytest.fixture
def token(airflow: None) -> Callable[[str | None], str]:
    """A token that Airflow signed for a user of some role."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def make(role: str | None) -> str:
        user = SimpleAuthManagerUser(username="somebody", role=role)
        signed: str = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=60)
        return signed

    return make
