"""An embedded PostgreSQL for laptops, the demo and tests: one data directory with one server, which any process can
find.

    DATA_DIR/lock        starting and stopping processes take turns (`turns`)
    DATA_DIR/password    of the owner, who creates and upgrades server and schema; only the starting user can read it
    DATA_DIR/running-password    of the role that runs pipelines, which may do no more than that (`grants`); likewise
    DATA_DIR/port        the last one, tried first, so that URLs stay valid over a restart
    DATA_DIR/server/     `pgdata` and `log`, owned by the account that the server runs as
    DATA_DIR/moved-to    instead of `server/`, if that account cannot enter DATA_DIR (root's home, for instance)

The server keeps running after the process that started it: a process that opens the same data directory uses the
running one. It listens on 127.0.0.1 only and always asks for the password. `accounts` chooses its account,
`binaries` its programs.
"""

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tidegate.embedded_postgres.accounts import Account, account_for
from tidegate.embedded_postgres.binaries import Binaries, find_binaries
from tidegate.embedded_postgres.postmaster import free_port, in_use, is_postgres, log_since, remove_stale_pid_file
from tidegate.embedded_postgres.turns import turn
from tidegate.postgres.roles import RUNNING_ROLE
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError

USER = "tidegate"
DATABASE = "tidegate"
#: The directory of the server's files if its account cannot enter the data directory. Only root needs it and can write
#: to it.
MOVED = Path("/var/lib/tidegate")

_WAIT = 60.0  # seconds for a start, with recovery after a crash, or for a stop
_POLL = 0.02
_PORT_ATTEMPTS = 5
_CONNECTIONS = 200
_UNSAFE = ("-c fsync=off", "-c synchronous_commit=off", "-c full_page_writes=off")


class EmbeddedPostgres:
    """A server of one data directory. `fsync=False` loses data in a power failure, and is for tests only.

    All methods raise `ConfigurationError` if the machine does not allow it, and `StoreUnavailableError` if the
    server does not start or stop. The messages name the log.
    """

    def __init__(self, data_dir: Path, fsync: bool = True) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._fsync = fsync

    def start(self) -> None:
        """Use the running server, or make and start one. Several processes may call it at once."""
        with self._turn():
            if self._settled():
                return
            server = self._server_directory()
            account = account_for(server)
            data = server / "pgdata"
            binaries = find_binaries(account, _major(data))
            if not data.exists():
                self._initialise(server, account, binaries)
            self._launch(server, account, binaries)

    def stop(self, immediately: bool = False) -> None:
        """Stop the server, ending its clients' sessions. Nothing happens if none runs. `immediately` stops it as a
        crash would, so that the next start recovers."""
        with self._turn():
            if not self._settled():
                return
            pid, _ = self._postmaster() or (None, None)
            if pid is not None:
                # PostgreSQL's "immediate" and "fast" shutdown.
                os.kill(pid, signal.SIGQUIT if immediately else signal.SIGINT)
            self._wait_while(lambda: self._postmaster() is not None, "stop")

    def remove(self) -> None:
        """Stop the server and remove it with all its data. Does nothing if there is none."""
        if self.data_dir.exists():
            self.stop()
            shutil.rmtree(self._server_directory(), ignore_errors=True)
            shutil.rmtree(self.data_dir)

    def url(self, database: str = DATABASE) -> str:
        """Return the database's SQLAlchemy URL for its owner, with the password. Raise `StoreUnavailableError` if no
        server runs."""
        return self._url(USER, "password", database)

    def running_url(self, database: str = DATABASE) -> str:
        """Return the database's URL for the role that runs pipelines, which `create_database` creates."""
        return self._url(RUNNING_ROLE, "running-password", database)

    def _url(self, user: str, secret: str, database: str) -> str:
        _, port = self._postmaster() or (None, None)
        if port is None:
            raise StoreUnavailableError(
                f"The embedded Postgres in {self.data_dir} is not running. Its data is safe. `tidegate db start` "
                "starts it."
            )
        return f"postgresql+psycopg2://{user}:{self._secret(secret)}@127.0.0.1:{port}/{database}"

    def create_database(self, name: str = DATABASE, settings: Mapping[str, str] | None = None) -> None:
        """Create a database in the running server, and the role that runs pipelines, unless they exist. That role may
        create tables in its schema `public`, for sinks, because the server belongs to one project. `settings` apply
        to later sessions of the database."""
        # Imported here, so that starting and stopping a server needs the standard library only.
        import psycopg2
        from psycopg2 import errors, sql

        from tidegate.postgres.outcomes import unreachable

        try:
            connection = psycopg2.connect(self.url("postgres").replace("+psycopg2", ""))
        except psycopg2.OperationalError as error:
            raise unreachable(str(error), f"connecting to database {name!r}") from error
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                self._create_running_role(cursor)
                cursor.execute("SELECT FROM pg_database WHERE datname = %s", (name,))
                if cursor.rowcount == 0:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                for setting, value in (settings or {}).items():
                    change = sql.SQL("ALTER DATABASE {} SET {} = {}")
                    cursor.execute(change.format(sql.Identifier(name), sql.Identifier(setting), sql.Literal(value)))
        except (errors.DuplicateDatabase, errors.UniqueViolation):
            pass  # another process was faster
        finally:
            connection.close()
        self._let_running_role_make_tables(name)

    def _let_running_role_make_tables(self, database: str) -> None:
        """Grant the right to create tables in the schema `public`, where sinks make theirs."""
        import psycopg2
        from psycopg2 import sql

        connection = psycopg2.connect(self.url(database).replace("+psycopg2", ""))
        try:
            # One at a time: Postgres refuses two grants on one schema at once ("tuple concurrently updated").
            with self._turn(), connection, connection.cursor() as cursor:
                cursor.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(RUNNING_ROLE)))
        finally:
            connection.close()

    def _create_running_role(self, cursor: Any) -> None:
        from psycopg2 import errors, sql

        cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (RUNNING_ROLE,))
        if cursor.rowcount == 0:
            with self._turn():  # otherwise another starter might be writing the password
                password = self._new_secret("running-password")
            made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            with suppress(errors.DuplicateObject, errors.UniqueViolation):
                cursor.execute(made.format(sql.Identifier(RUNNING_ROLE), sql.Literal(password)))

    # -- the data directory

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                self.data_dir.mkdir(parents=True, exist_ok=True)
                held.enter_context(turn(self.data_dir / "lock", f"The embedded Postgres in {self.data_dir}"))
            except OSError as error:
                raise ConfigurationError(
                    f"The embedded Postgres cannot use {self.data_dir}: {error}. Make it writable, choose another home "
                    "(TIDEGATE_HOME), or set TIDEGATE_DATABASE_URL."
                ) from error
            yield

    def _server_directory(self) -> Path:
        """Return the directory of the server's files, which need not exist yet."""
        here, moved = self.data_dir / "server", self.data_dir / "moved-to"
        if moved.exists():
            target = Path(moved.read_text().strip())
            claim = target / "data_dir"
            if not claim.exists() or claim.read_text() != str(self.data_dir):
                raise ConfigurationError(
                    f"{moved} names {target}, which is not the server of {self.data_dir}: one of them was copied, "
                    f"moved or removed. Nothing was changed. Put it back, or remove {self.data_dir} to start afresh."
                )
            return target
        if here.exists() or account_for(here).can_enter(self.data_dir):
            return here
        target = MOVED / f"postgres-{secrets.token_hex(8)}"
        try:
            MOVED.mkdir(parents=True, exist_ok=True)
            MOVED.chmod(0o755)
            target.mkdir(mode=0o700)
            (target / "data_dir").write_text(str(self.data_dir))
        except OSError as error:
            raise ConfigurationError(
                f"The account {account_for(here).name}, which would run the embedded Postgres, cannot enter "
                f"{self.data_dir}, and {MOVED} cannot be used instead: {error}. Use a home that every user can enter "
                "(TIDEGATE_HOME), run as an ordinary user, or set TIDEGATE_DATABASE_URL."
            ) from error
        account_for(here).own(target)
        moved.write_text(f"{target}\n")
        return target

    def _initialise(self, server: Path, account: Account, binaries: Binaries) -> None:
        server.mkdir(mode=0o700, exist_ok=True)
        account.own(server)
        fresh, given = server / "pgdata.new", server / "password.new"
        shutil.rmtree(fresh, ignore_errors=True)  # left by a start that was killed
        given.unlink(missing_ok=True)
        try:
            _write_secret(given, self._new_secret("password"))
            account.own(given)
            made = account.run(
                [
                    binaries.program("initdb"),
                    *("-D", fresh, "-U", USER, "-A", "scram-sha-256", f"--pwfile={given}"),
                    *("-E", "UTF8", "--locale=C", *([] if self._fsync else ["--no-sync"])),
                ]
            )
        finally:
            given.unlink(missing_ok=True)
        if made.returncode != 0:
            raise StoreUnavailableError(
                f"The embedded Postgres could not be created in {server}: {made.stdout.strip()[-500:]}. Nothing is "
                "lost: there was no data yet. Remove the cause and start again."
            )
        fresh.rename(server / "pgdata")

    def _new_secret(self, name: str) -> str:
        file = self.data_dir / name
        if not file.exists():
            _write_secret(file, secrets.token_urlsafe(24))
        return file.read_text()

    def _secret(self, name: str) -> str:
        try:
            return (self.data_dir / name).read_text()
        except OSError as error:
            raise ConfigurationError(
                f"The password of the embedded Postgres cannot be read from {self.data_dir / name}: {error.strerror}. "
                "Its data is safe. Run as the user who created it, or put the file back."
            ) from error

    # -- the server

    def _launch(self, server: Path, account: Account, binaries: Binaries) -> None:
        remove_stale_pid_file(server / "pgdata" / "postmaster.pid")
        remembered, log = self.data_dir / "port", server / "log"
        size_before = log.stat().st_size if log.exists() else 0
        for attempt in range(_PORT_ATTEMPTS):
            port = free_port(remembered if attempt == 0 else None)
            options = [
                *("-c listen_addresses=127.0.0.1", f"-c port={port}", "-c unix_socket_directories=''"),
                *(f"-c max_connections={_CONNECTIONS}", "-c timezone=UTC", "-c log_timezone=UTC"),
                *(() if self._fsync else _UNSAFE),
            ]
            # Relative names below `cwd`: pg_ctl hands its arguments to a shell, and a path may hold anything.
            started = account.run(
                [
                    *(binaries.program("pg_ctl"), "start", "-w", "-t", str(int(_WAIT)), "-s"),
                    *("-D", "pgdata", "-l", "log", "-o", " ".join(options)),
                ],
                cwd=server,
            )
            if started.returncode == 0 and self._settled():
                remembered.write_text(str(port))
                return
            if not in_use(port):
                break
        raise StoreUnavailableError(
            f"The embedded Postgres in {self.data_dir} did not start: {log_since(log, size_before)}. Its data is "
            f"untouched. See {log}, remove the cause, and start again."
        )

    def _settled(self) -> bool:
        """Wait while a server is starting, recovering or stopping. Return whether one runs then."""
        self._wait_while(lambda: (self._postmaster() or (0, 1))[1] is None, "become ready")
        _, port = self._postmaster() or (0, None)
        return port is not None

    def pid(self) -> int | None:
        """Return the server's process id, also while it starts or stops; None if none runs. Opens no connection."""
        running = self._pid_file()
        return running[0] if running else None

    def _postmaster(self) -> tuple[int, int | None] | None:
        """Return the server's process id, and its port once it takes connections; None if there is no such process."""
        running = self._pid_file()
        if running is None:
            return None
        pid, lines = running
        port = int(lines[3]) if len(lines) > 7 and lines[7].strip() == "ready" else None
        return pid, port if port is not None and in_use(port) else None

    def _pid_file(self) -> tuple[int, list[str]] | None:
        """Return the process id of a running server, and the lines of its pid file; None if there is
        no such process."""
        moved = self.data_dir / "moved-to"
        try:
            server = Path(moved.read_text().strip()) if moved.exists() else self.data_dir / "server"
            # Lines: pid, data directory, start time, port, socket directory, address, shared memory, status.
            lines = (server / "pgdata" / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, ValueError, IndexError):
            return None
        except OSError as error:
            raise ConfigurationError(
                f"The embedded Postgres in {self.data_dir} cannot be inspected: {error}. Run as the user who created "
                "it, or use a home of your own (TIDEGATE_HOME)."
            ) from error
        return (pid, lines) if is_postgres(pid) else None

    def _wait_while(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT
        while condition():
            if time.monotonic() > deadline:
                raise StoreUnavailableError(
                    f"The embedded Postgres in {self.data_dir} did not {what} in {_WAIT:.0f} seconds. Its data is "
                    f"safe. See {self._log()}."
                )
            time.sleep(_POLL)

    def _log(self) -> Path:
        return self._server_directory() / "log"


def _write_secret(file: Path, secret: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(secret)


def _major(data: Path) -> int | None:
    version = data / "PG_VERSION"
    return int(version.read_text().strip()) if version.exists() else None
