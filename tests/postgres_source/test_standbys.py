"""A standby that is read, where what is open on the primary waits, and one that is promoted."""

from collections.abc import Iterator
from time import sleep

import pytest
from marts import Server
from outbox_lives import INDEX, TABLE, OutboxReader
from public_directories import public_directory
from standbys import caught_up, standby_of

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import TRUSTED
from tidegate.protocol.facts.errors import SourceChangedError, SourceUnavailableError


@pytest.fixture
def servers() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    with public_directory("tidegate-standby-") as home, public_directory("tidegate-primary-") as other:
        primary = EmbeddedPostgres(other / "postgres", fsync=False)
        primary.start()
        yield primary, standby_of(primary, home / "postgres")


def test_standbys_and_what_becomes_of_one(
    servers: tuple[EmbeddedPostgres, EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    primary, standby = Server(one.url("postgres")), Server(two.url("postgres"))

    def ask(server: Server) -> None:
        monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", server.url)

    def insert(server: Server, id_: int) -> None:
        server.do(f"INSERT INTO public.outbox (id) VALUES ({id_})")  # noqa: S608

    primary.do(TABLE, INDEX)
    reader = OutboxReader()
    insert(primary, 1)
    with primary.session() as held:
        held.execute("INSERT INTO public.outbox (id) VALUES (2)")
        insert(primary, 3)
        caught_up(primary, standby)
        assert standby.rows("SELECT id FROM public.outbox") == [1, 3]
        ask(standby)
        assert reader.ids() == [1], "a standby does not say that 2 is open, so 3 waits"
        ask(primary)
        assert reader.ids() == [3]
        ask(standby)
        assert reader.poll() is None, "it knows less than what was read"
        held.connection.commit()
    caught_up(primary, standby)
    assert reader.ids() == [2]

    standby.do("SELECT pg_wal_replay_pause()")
    insert(primary, 4)
    ask(primary)
    segment = reader.poll()
    ask(standby)
    with pytest.raises(RuntimeError) as raised:
        reader.rows(segment)
    error = reader.make().explain(raised.value, [segment] if segment else [])
    assert isinstance(error, SourceUnavailableError)
    assert "has not replayed yet the rows to be read" in str(error)
    standby.do("SELECT pg_wal_replay_resume()")
    caught_up(primary, standby)
    assert [row["id"] for row in reader.rows(segment)] == [4]

    kept = reader.position
    standby.do("SELECT pg_promote()")
    insert(standby, 5)
    assert reader.ids() == [5], "it had replayed all that was read"
    assert reader.position.position["to"]["cluster"].endswith("/2")
    reader.position = kept
    assert reader.ids() == [5], "so after a restore"

    reader.position = kept
    ask(primary)
    insert(primary, 6)
    assert reader.ids() == [6]
    ask(standby)
    with pytest.raises(SourceChangedError, match="A standby was promoted, or a backup restored") as lost:
        reader.poll()
    start = str(lost.value).partition('start="')[2].partition('"')[0]
    assert reader.poll(start=start) is None
    two.stop()
    two.start()
    sleep(TRUSTED)  # connections that were used lately are not tested
    standby = Server(two.url("postgres"))
    ask(standby)
    reader.position = kept
    with pytest.raises(SourceChangedError, match=r"If nothing that was committed is missing, give the source start="):
        reader.poll()
    start = str(kept.position["to"]["cluster"]).replace("/1", "/2 ") + kept.position["to"]["seen"]
    assert reader.ids(start=start) == [5]
