"""`make bench-pages` asks for every page that there is, and each answers."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from tidegate.clock import SystemClock
from tidegate.postgres.engine import connect
from tidegate.reading.readings import Readings
from tidegate.state.stored import StoredState
from tidegate.ui.app import create_app

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_address_that_is_measured_answers(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from many_checkpoints import fill
    from page_app import Everybody, addresses

    engine, stored = connect(make_url(postgres_url)), StoredState(str(tmp_path), None)
    try:
        last = fill(engine, 3, 100, lambda said: None)
        readings = Readings(engine, SystemClock().now, stored.open, stored)
        app = create_app(tmp_path, lambda: readings, Everybody())
        client = TestClient(app)
        codes = {where: client.get(where).status_code for where in addresses(app, last)}
        assert {where: code for where, code in codes.items() if code != 200} == {}
    finally:
        engine.dispose()
