"""`CheckpointStore` on PostgreSQL: open transactions, lock the pipeline, commit, and explain errors.

`transaction` has the reads and writes of a transaction, `references` decides which files are garbage, and `tables`
has the rules for rows.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.ports import Participant, Prefetch
from tidegate.postgres import audit, reads, snapshots
from tidegate.postgres.listening import ChangeListener
from tidegate.postgres.outcomes import explain, explain_commit, is_disconnect, is_repeatable
from tidegate.postgres.participants import run as run_participants
from tidegate.postgres.pipeline_rows import Locked, lock
from tidegate.postgres.transaction import PostgresTransaction
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.statistics import LatestFigures

Answer = TypeVar("Answer")


class PostgresCheckpointStore:
    """The durable record of checkpoints. Thread-safe. Each process needs its own."""

    def __init__(self, engine: Engine, listening: Engine | None = None) -> None:
        """Take `listening`, an engine that reaches the same database without a pooler, if `engine` goes through one."""
        self._engine = engine
        self._reading = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._listener = ChangeListener(listening or engine)
        self._identity: str | None = None

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> Iterator[PostgresTransaction]:
        """See `ports.CheckpointStore`. Raises `StoreUnavailableError` (nothing happened), `UnknownOutcomeError` (read
        again to find out), or `CheckpointError` if a rule of the database refused a row (nothing happened)."""
        what = f"the transaction on pipeline {pipeline_id!r}"

        def begin(connection: Connection) -> Locked:
            run_participants(connection, participants)
            return lock(connection, pipeline_id, prefetch)

        connection, locked = self._first(self._engine, what, begin)
        try:
            try:
                transaction = PostgresTransaction(connection, locked)
                yield transaction
                if transaction.wrote:
                    transaction.conclude()
                changed = transaction.wrote or transaction.touched or bool(participants)
            except DBAPIError as error:
                raise explain(error, what) from error
            try:
                if changed:
                    connection.commit()
                else:  # releases the lock without waiting for the disk, as locking a row is logged too
                    connection.rollback()
            except DBAPIError as error:
                if not changed and is_disconnect(error):
                    raise explain(error, what) from error
                raise explain_commit(error, what) from error
        finally:
            _give_back(connection)

    def identity(self) -> str:
        if self._identity is None:
            self._identity = self._read("reading the database's identity", reads.identity)
        return self._identity

    def pipelines(self) -> list[str]:
        return self._read("reading the pipelines", reads.pipeline_ids)

    def pipeline(self, pipeline_id: str) -> PipelineRecord | None:
        return self._read("reading a pipeline", lambda c: reads.pipeline(c, pipeline_id))

    def region(self, pipeline_id: str) -> RegionRecord:
        return self._read("reading the region", lambda c: reads.region(c, pipeline_id))

    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None:
        return self._read("reading a checkpoint", lambda c: reads.checkpoint(c, pipeline_id, checkpoint_id))

    def history(self, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
        return self._read("reading the history", lambda c: reads.history(c, pipeline_id, limit))

    def completed(self, pipeline_id: str) -> list[CheckpointRecord]:
        purpose = "reading the completed checkpoints"
        return self._read(purpose, lambda c: reads.with_status(c, pipeline_id, Status.COMPLETED))

    def figures(self, pipeline_id: str) -> LatestFigures:
        return self._read("reading the figures", lambda c: reads.figures(c, pipeline_id))

    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]:
        return self._read("reading the subtasks", lambda c: snapshots.subtasks_of(c, pipeline_id, checkpoint_id))

    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> list[Verdict]:
        return self._read("reading the verdicts", lambda c: reads.verdicts_of(c, pipeline_id, checkpoint_id))

    def audit(self, pipeline_id: str | None, limit: int, before: int | None = None) -> list[AuditRecord]:
        return self._read("reading the audit", lambda c: audit.newest(c, pipeline_id, limit, before))

    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        """See `listening`: changes committed between two waits of one thread are not missed."""
        return bool(self._listener.wait([pipeline_id], timeout))

    def wait_for_changes(self, pipeline_ids: Collection[str], timeout: float) -> set[str]:
        """See `listening`: changes committed between two waits of one thread are not missed."""
        return self._listener.wait(pipeline_ids, timeout)

    def close(self) -> None:
        """Close the calling thread's listening connection and the pool. The store reconnects if used again."""
        self._listener.close()
        self._engine.dispose()

    def _read(self, what: str, question: Callable[[Connection], Answer]) -> Answer:
        connection, answer = self._first(self._reading, what, question)
        _give_back(connection)
        return answer

    def _first(self, engine: Engine, what: str, question: Callable[[Connection], Answer]) -> tuple[Connection, Answer]:
        """Return a connection, and the first answer on it. A recently used connection is not tested (see `engine`). If
        it is gone, or another transaction came first, the query is repeated once, because nothing has happened yet."""
        for again in (True, False):
            connection = self._connect(engine, what)
            try:
                return connection, question(connection)
            except DBAPIError as error:
                _give_back(connection)
                if not (again and is_repeatable(error)):
                    raise explain(error, what) from error
            except BaseException:
                _give_back(connection)
                raise
        raise AssertionError("the second time returns or raises")

    def _connect(self, engine: Engine, what: str) -> Connection:
        try:
            return engine.connect()
        except (DBAPIError, PoolTimeoutError) as error:
            raise explain(error, what) from error


def _give_back(connection: Connection) -> None:
    """Roll back an open transaction and return the connection. A broken one is dropped, and the first error is kept."""
    try:
        connection.close()
    except DBAPIError:
        connection.invalidate()
