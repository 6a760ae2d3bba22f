"""A disk of the database that is really full: a small file system of its own, on which a tablespace lies."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from marts import Mart, Server, values
from public_directories import public_directory

from tidegate import PostgresSink
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import SinkUnavailableError

SMALL, LARGE = 4, 200  # megabytes
MANY = 200_000  # rows of a number are 7 MB
FULL = "could not extend file .*No space left on device"


class Disk:
    """A file system in memory, mounted at a directory."""

    def __init__(self, where: Path, owner: int) -> None:
        self.where = where
        where.mkdir()
        self._mount(f"size={SMALL}m,uid={owner},mode=0700")

    def _mount(self, options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tidegate-test", str(self.where)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"This process may not mount a file system, so no disk can be filled: {done.stderr.strip()}")

    def make_room(self) -> None:
        self._mount(f"remount,size={LARGE}m")

    def close(self) -> None:
        subprocess.run(["umount", str(self.where)], check=True)


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """One of the test's own, which is stopped before its disk is gone."""
    if os.geteuid() != 0:
        pytest.skip("Only root may mount a file system, and without one no disk can be filled.")
    with public_directory("tidegate-full-") as home:
        server = EmbeddedPostgres(home / "postgres", fsync=False)
        server.start()
        server.create_database()
        upgrade(server.url())
        server.create_database("marts")
        yield server


@pytest.fixture
def disk(server: EmbeddedPostgres) -> Iterator[Disk]:
    owner = (server.data_dir / "server" / "pgdata").stat().st_uid
    with closing(Disk(server.data_dir.with_name("disk"), owner)) as disk:
        yield disk
        server.stop(immediately=True)


@pytest.fixture
def shop(server: EmbeddedPostgres, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Mart]]:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", server.running_url())
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", server.url("marts"))
    with closing(PostgresCheckpointStore(connect(server.running_url()))) as store:
        yield lambda **sinks: Mart(store, home, **sinks)


@pytest.mark.parametrize(
    ("connection", "mode", "loading"),
    [(None, "append", False), ("marts", "append", True), (None, "upsert", True), ("marts", "replace", False)],
)
def test_the_table_and_what_to_do_are_named_and_the_step_is_repeated_once_there_is_room(
    server: EmbeddedPostgres, disk: Disk, shop: Callable[..., Mart], connection: str | None, mode: Any, loading: bool
) -> None:
    """`loading`: it is full while rows are loaded; else once the table takes them."""
    name = "marts" if connection else "tidegate"
    base = Server(server.url(name))
    base.alone(f"CREATE TABLESPACE small LOCATION '{disk.where}'", "GRANT CREATE ON TABLESPACE small TO PUBLIC")
    where = "pg_default" if loading else "small"
    more = ", _checkpoint bigint" if mode == "append" else ""
    base.do(
        f"CREATE TABLE orders (k bigint{more}) TABLESPACE {where}",
        "ALTER TABLE orders OWNER TO tidegate_runner",
        *(["ALTER TABLE orders ADD UNIQUE (k)"] if mode == "upsert" else []),
        *([f"ALTER DATABASE {name} SET default_tablespace = small"] if loading else []),
    )
    pipeline = shop(orders=PostgresSink("orders", mode, connection, key="k" if mode == "upsert" else None))
    pipeline.take(orders=values(-1, name="k"))
    many = values(*range(MANY), name="k")
    id_ = pipeline.finalize(orders=many) if connection else pipeline.validated(orders=many)
    step = pipeline.coordinator.notify if connection else pipeline.coordinator.finalize
    for _ in range(2):
        with pytest.raises(SinkUnavailableError, match=FULL) as raised:
            step(id_)
        said = str(raised.value)
        assert said.startswith("Table public.orders did not take the rows of checkpoint 2: could not extend file")
        assert "rows are staged and safe" in said
        assert f"Make room in the database, or raise that limit; then repeat the {step.__name__} step" in said
        assert base.rows("SELECT k FROM orders") == [-1]
        assert pipeline.status(id_) == ("COMPLETED" if connection else "IN_PROGRESS")
    disk.make_room()
    step(id_)
    assert pipeline.status(id_) == "COMPLETED"
    assert base.rows("SELECT count(*) FROM orders") == [MANY if mode == "replace" else MANY + 1]
