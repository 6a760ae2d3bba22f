"""What the caller is told when the database goes away, and whether that is the truth."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import make_url, text
from store_steps import PIPELINE, SUBTASKS, at, completed, record, status, triggered, validated

from tidegate.ports import StoreTransaction
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason


class Severed:
    """A network between a client and the server that fails at the end of a transaction: before `end` arrives,
    or before its answer."""

    def __init__(self, port: int, delivers: bool, end: bytes = b"COMMIT") -> None:
        self._port = port
        self._delivers = delivers
        self._end = end
        self.armed = False
        self._is_cut = False
        self._answered = threading.Event()  # after the cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            answering = threading.Thread(target=self._answers, args=(server, client), daemon=True)
            answering.start()
            threading.Thread(target=self._asks, args=(client, server), daemon=True).start()

    def _asks(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.armed and self._end in data:
                    self._is_cut = True
                    _cut(client)
                    if self._delivers:
                        server.sendall(data)
                        self._answered.wait(5)  # then what was asked is done
                    break
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # wakes who waits for its answers
        server.close()

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self._is_cut:
                    self._answered.set()
                    return
                client.sendall(data)


def _cut(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def store_behind(network: Severed, url: str) -> Iterator[PostgresCheckpointStore]:
    store = PostgresCheckpointStore(connect(make_url(url).set(port=network.port)))
    try:
        yield store
    finally:
        store.close()
        network.close()


def end_backends(url: str) -> None:
    """What an administrator, a failover or the out-of-memory killer does to our sessions."""
    engine = connect(url)
    with engine.connect() as connection:
        connection.execute(
            text("""
                SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()""")
        )
    engine.dispose()


def test_a_server_that_refuses_connections_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    store = PostgresCheckpointStore(connect(f"postgresql://tidegate:top-secret@127.0.0.1:{port}/tidegate"))

    def transact() -> None:
        with store.transaction(PIPELINE):
            raise AssertionError("unreachable")

    for ask in (transact, store.pipelines, lambda: store.wait_for_change(PIPELINE, 1)):
        with pytest.raises(StoreUnavailableError, match=r"Nothing was changed .*Check that PostgreSQL runs") as caught:
            ask()
        assert "top-secret" not in str(caught.value)


def test_a_wrong_password_is_not_shown(postgres_url: str) -> None:
    store = PostgresCheckpointStore(connect(make_url(postgres_url).set(password="wrong-secret")))
    with pytest.raises(StoreUnavailableError, match="password authentication failed") as caught:
        store.pipelines()
    assert "wrong-secret" not in str(caught.value)


def test_a_session_lost_in_the_middle_of_a_transaction_changed_nothing(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    def lose(transaction: StoreTransaction) -> None:
        transaction.add_pending(record(1, "run-1"), SUBTASKS)
        end_backends(postgres_url)
        transaction.begin_attempt(1)

    with pytest.raises(StoreUnavailableError, match="Nothing was changed"), store.transaction(PIPELINE) as transaction:
        lose(transaction)
    assert store.checkpoint(PIPELINE, 1) is None
    assert triggered(store) == 1


def test_a_session_lost_after_the_last_statement_changed_nothing(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    def lose(transaction: StoreTransaction) -> None:
        transaction.add_pending(record(1, "run-1"), SUBTASKS)
        end_backends(postgres_url)

    with pytest.raises(StoreUnavailableError), store.transaction(PIPELINE) as transaction:
        lose(transaction)
    assert store.checkpoint(PIPELINE, 1) is None


def test_sessions_lost_between_transactions_are_replaced_unnoticed(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    triggered(store)
    end_backends(postgres_url)
    assert triggered(store) == 2
    end_backends(postgres_url)
    assert store.pipelines() == [PIPELINE]


def test_a_connection_is_tested_after_a_while_and_not_for_each_use(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = connect(postgres_url)
    tested: list[object] = []
    monkeypatch.setattr(engine.dialect, "do_ping", tested.append)
    for _ in range(3):
        with engine.connect():
            pass
    assert tested == []
    monkeypatch.setattr("tidegate.postgres.engine.TRUSTED", 0.0)
    with engine.connect():
        pass
    assert len(tested) == 1
    engine.dispose()


@pytest.mark.parametrize(("delivers", "outcome"), [(True, Status.COMPLETED), (False, Status.IN_PROGRESS)])
def test_a_connection_lost_during_the_commit_leaves_the_outcome_unknown(
    store: PostgresCheckpointStore, postgres_url: str, delivers: bool, outcome: Status
) -> None:
    validated(store)
    network = Severed(make_url(postgres_url).port or 0, delivers)

    def complete(transaction: StoreTransaction) -> None:
        assert transaction.complete(1, at(30), "flights/chk-1/_metadata", 0, 0)
        network.armed = True

    with (
        store_behind(network, postgres_url) as far,
        pytest.raises(UnknownOutcomeError, match=r"may or may not have taken effect. Nothing was deleted"),
        far.transaction(PIPELINE) as transaction,
    ):
        complete(transaction)
    with store.transaction(PIPELINE):
        pass  # has waited until the server has ended the lost session
    assert status(store, 1) is outcome


def test_a_connection_lost_while_ending_a_transaction_that_only_read_is_no_riddle(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    completed(store)
    network = Severed(make_url(postgres_url).port or 0, delivers=True, end=b"ROLLBACK")

    def read(transaction: StoreTransaction) -> None:
        assert transaction.latest_completed() is not None
        network.armed = True

    with (
        store_behind(network, postgres_url) as far,
        pytest.raises(StoreUnavailableError),
        far.transaction(PIPELINE) as transaction,
    ):
        read(transaction)


def test_who_waits_too_long_for_the_pipeline_gets_an_error(store: PostgresCheckpointStore, postgres_url: str) -> None:
    impatient = PostgresCheckpointStore(
        connect(make_url(postgres_url).update_query_dict({"options": "-c lock_timeout=200"}))
    )
    with (
        store.transaction(PIPELINE),
        pytest.raises(StoreUnavailableError, match=r"held the lock .* Nothing was changed"),
        impatient.transaction(PIPELINE),
    ):
        raise AssertionError("unreachable")
    assert triggered(impatient) == 1
    impatient.close()


def test_a_coordinator_that_stops_inside_a_transaction_does_not_block_its_successor(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    stopping = make_url(postgres_url).update_query_dict({"options": "-c idle_in_transaction_session_timeout=200"})
    zombie = PostgresCheckpointStore(connect(stopping))
    triggered(store)

    def stop_and_continue(transaction: StoreTransaction) -> None:
        transaction.fail(1, FailureReason.TASK_FAILURE, "from the zombie", at(1))
        started = time.monotonic()
        assert triggered(store) == 2
        assert time.monotonic() - started < 30
        transaction.fail(2, FailureReason.TASK_FAILURE, "from the zombie", at(1))

    with pytest.raises(StoreUnavailableError, match="Nothing was changed"), zombie.transaction(PIPELINE) as transaction:
        stop_and_continue(transaction)
    assert [status(store, id_) for id_ in (1, 2)] == [Status.IN_PROGRESS, Status.IN_PROGRESS]
    zombie.close()


def test_what_a_rule_refuses_names_the_rule(store: PostgresCheckpointStore) -> None:
    triggered(store, "run-1")
    with (
        pytest.raises(
            CheckpointError, match=r"refused .*'flights', rule checkpoints_request_once: .*Nothing was changed"
        ),
        store.transaction(PIPELINE) as transaction,
    ):
        transaction.add_pending(record(2, "run-1"), SUBTASKS)


def test_a_database_without_tables_asks_for_the_upgrade(postgres_url: str) -> None:
    store = PostgresCheckpointStore(connect(make_url(postgres_url).set(database="postgres")))
    with pytest.raises(ConfigurationError, match="Run `tidegate db upgrade`"):
        store.pipelines()
    store.close()


def test_a_waiting_thread_wakes_in_well_under_a_second(store: PostgresCheckpointStore) -> None:
    assert not store.wait_for_change(PIPELINE, 0)
    committed: list[float] = []

    def commit() -> None:
        triggered(store)
        committed.append(time.monotonic())

    timer = threading.Timer(0.2, commit)
    timer.start()
    assert store.wait_for_change(PIPELINE, 60)
    woke = time.monotonic()
    timer.join()
    assert woke - committed[0] < 0.8


def test_a_waiting_thread_that_loses_its_connection_gets_an_error_and_may_wait_again(
    store: PostgresCheckpointStore, postgres_url: str
) -> None:
    assert not store.wait_for_change(PIPELINE, 0)
    timer = threading.Timer(0.2, end_backends, (postgres_url,))
    timer.start()
    with pytest.raises(StoreUnavailableError, match="Wait again: it reconnects"):
        store.wait_for_change(PIPELINE, 60)
    timer.join()
    assert not store.wait_for_change(PIPELINE, 0)
    triggered(store)
    assert store.wait_for_change(PIPELINE, 60)
