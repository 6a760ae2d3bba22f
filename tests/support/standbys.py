"""A standby of an embedded server, which follows it and can be promoted."""

import shutil
from pathlib import Path

from marts import Server

from tidegate.embedded_postgres.accounts import account_for
from tidegate.embedded_postgres.binaries import find_binaries
from tidegate.embedded_postgres.server import EmbeddedPostgres


def standby_of(primary: EmbeddedPostgres, home: Path) -> EmbeddedPostgres:
    """A running one, in a directory that every account can enter."""
    standby = EmbeddedPostgres(home, fsync=False)
    standby.start()
    standby.stop()
    shutil.copyfile(primary.data_dir / "password", home / "password")
    server = home / "server"
    shutil.rmtree(server / "pgdata")
    account = account_for(server)
    program = find_binaries(account, None).program("pg_basebackup")
    url = primary.url("postgres").replace("+psycopg2", "")
    copied = account.run([str(program), "-d", url, "-D", "pgdata", "-R", "-X", "stream", "-c", "fast"], cwd=server)
    assert copied.returncode == 0, copied.stdout
    standby.start()
    return standby


def caught_up(primary: Server, standby: Server) -> None:
    """Wait until it has replayed all that has happened."""
    [written] = primary.rows("SELECT pg_current_wal_insert_lsn()::text")
    for _ in range(500):
        if standby.rows(f"SELECT pg_last_wal_replay_lsn() >= '{written}', pg_sleep(0.02)")[0][0]:
            return
    raise AssertionError(f"the standby has not replayed {written}")
