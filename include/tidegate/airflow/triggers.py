"""Triggers that wait until a task should poll: a checkpoint that is acknowledged, decided, ended or past its deadline,
or a waiting request that may start.

A trigger decides nothing; the task polls the database itself. A notification wakes the trigger, and regular polls make
up for a lost one. If the database is unreachable, it waits. Only two ids and a number are stored of it; it finds the
database on its own. It fires only when there is something to do, because each time costs a task, and waiting tasks must
not take the slots of those they wait for.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_random_exponential

from tidegate.protocol.facts.clocks import is_ahead, time_left
from tidegate.protocol.facts.errors import StoreUnavailableError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.steps.admission import LEASE, choose_waiting, takes_turn

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger("tidegate")

CHANNEL = "tidegate"  # the channel of NOTIFY; the payload is the pipeline's id
LOOK = """
SELECT status, phase, triggered_at, deadline, held_until FROM tidegate.checkpoints
WHERE pipeline_id = $1 AND checkpoint_id = $2
"""
REQUESTS = "SELECT * FROM tidegate.requests WHERE pipeline_id = $1"
BUSY = """
SELECT max(CASE phase WHEN 'HELD' THEN held_until ELSE deadline END) FROM tidegate.checkpoints
WHERE pipeline_id = $1 AND status = 'IN_PROGRESS'
"""
#: The time after its last repetition at which a request is repeated, to keep its place.
RENEWAL = LEASE / 2
#: Seconds that a connection attempt or a poll may take before it counts as lost.
PATIENCE = 10.0
#: The longest pause, in seconds, between two attempts to reach the database.
LONGEST_PAUSE = 15.0


class DatabaseLostError(Exception):
    """The database became unreachable while the trigger waited."""


class PipelineTrigger(BaseTrigger):
    """A trigger that fires once when its task should poll; a subclass decides when.

    It polls after every commit that concerns the pipeline, and every `poll_interval` seconds, because a task costs a
    process and a poll does not.
    """

    def __init__(self, pipeline_id: str, poll_interval: float = 5.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline_id = pipeline_id
        self.poll_interval = poll_interval

    @abstractmethod
    async def time_to_wait(self, connection: "Connection[Any]") -> float:
        """Return the longest time until the next poll, in seconds; 0 or less if the task should run."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", self._arguments()

    def _arguments(self) -> dict[str, Any]:
        return {"pipeline_id": self.pipeline_id, "poll_interval": self.poll_interval}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(DatabaseLostError),
            wait=wait_random_exponential(multiplier=0.5, max=LONGEST_PAUSE),
            before_sleep=before_sleep_log(log, logging.WARNING),
        )
        await attempts(self._wait)
        yield TriggerEvent({"pipeline_id": self.pipeline_id})  # type: ignore[no-untyped-call]

    async def _wait(self) -> None:
        """Wait until the task should run.

        Raises:
            DatabaseLostError: If the connection fails or breaks.
        """
        async with _listening(self.pipeline_id) as (connection, woken):
            while True:
                woken.clear()
                async with connection.transaction(isolation="read_committed", readonly=True):
                    wait = await self.time_to_wait(connection)
                if wait <= 0:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), min(wait, self.poll_interval))
                if connection.is_closed():
                    raise DatabaseLostError("The database closed the connection.")


class RequestTrigger(PipelineTrigger):
    """Fires once when the waiting request is the first in line and nothing precedes it, when it was dropped, or when
    its requester must repeat it to keep its place.
    """

    def __init__(self, pipeline_id: str, request_id: str, poll_interval: float = 5.0) -> None:
        super().__init__(pipeline_id, poll_interval)
        self.request_id = request_id

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "request_id": self.request_id}

    async def time_to_wait(self, connection: "Connection[Any]") -> float:
        # Imported here, because every DAG parse imports this module.
        from tidegate.postgres.rows import request_record

        requests = [request_record(row) for row in await connection.fetch(REQUESTS, self.pipeline_id)]
        own_request = next((request for request in requests if request.request_id == self.request_id), None)
        if own_request is None or own_request.dropped is not None:
            return 0.0
        now = datetime.now(UTC)
        until_due: float = time_left(own_request.seen_at, RENEWAL, now).total_seconds()
        deadline: datetime | None = await connection.fetchval(BUSY, self.pipeline_id)
        if deadline is not None and deadline > now:
            return min(until_due, (deadline - now).total_seconds())
        waiting = choose_waiting(requests, now)
        return 0.0 if takes_turn(own_request, waiting) else until_due


class AcknowledgeTrigger(PipelineTrigger):
    """Fires once when the checkpoint is no longer `IN_PROGRESS/TRIGGERED`, does not exist, is overdue, or has a
    deadline that only a wrong clock can have set.
    """

    def __init__(self, pipeline_id: str, checkpoint_id: int, poll_interval: float = 5.0) -> None:
        super().__init__(pipeline_id, poll_interval)
        self.checkpoint_id = checkpoint_id

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "checkpoint_id": self.checkpoint_id}

    async def time_to_wait(self, connection: "Connection[Any]") -> float:
        row = await connection.fetchrow(LOOK, self.pipeline_id, self.checkpoint_id)
        if row is None or (row["status"], row["phase"]) != (Status.IN_PROGRESS, Phase.TRIGGERED):
            return 0.0
        now, given = datetime.now(UTC), row["deadline"] - row["triggered_at"]
        if given > timedelta(0) and is_ahead(row["triggered_at"], given, now):
            return 0.0  # the task corrects the deadline
        remaining: float = (row["deadline"] - now).total_seconds()
        return remaining


class HoldTrigger(PipelineTrigger):
    """Fires once when the checkpoint is no longer `IN_PROGRESS/HELD`, does not exist, or its hold has ended."""

    def __init__(self, pipeline_id: str, checkpoint_id: int, poll_interval: float = 5.0) -> None:
        super().__init__(pipeline_id, poll_interval)
        self.checkpoint_id = checkpoint_id

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "checkpoint_id": self.checkpoint_id}

    async def time_to_wait(self, connection: "Connection[Any]") -> float:
        row = await connection.fetchrow(LOOK, self.pipeline_id, self.checkpoint_id)
        if row is None or (row["status"], row["phase"]) != (Status.IN_PROGRESS, Phase.HELD):
            return 0.0
        remaining: float = (row["held_until"] - datetime.now(UTC)).total_seconds()
        return remaining


@asynccontextmanager
async def _listening(pipeline_id: str) -> AsyncIterator[tuple["Connection[Any]", asyncio.Event]]:
    """Yield a connection, and an event that is set after a commit that concerns the pipeline, or when the connection
    breaks.
    """
    import asyncpg

    woken = asyncio.Event()

    def notified(connection: object, pid: int, channel: str, payload: object) -> None:
        if payload == pipeline_id:
            woken.set()

    try:
        connection = await asyncpg.connect(
            await asyncio.to_thread(_dsn),
            timeout=PATIENCE,
            command_timeout=PATIENCE,
            statement_cache_size=0,  # behind a pooler, the next transaction may have another session
        )
        try:
            connection.add_termination_listener(lambda _: woken.set())
            async with connection.transaction():
                await connection.add_listener(CHANNEL, notified)
            yield connection, woken
        finally:
            connection.terminate()  # needs no answer from a database that may be gone
    # OSError covers timeouts and resets. StoreUnavailableError is an embedded server that is full or starting.
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, StoreUnavailableError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # it was cancelled, and the rollback then got no answer
            raise asyncio.CancelledError from error
        raise DatabaseLostError(f"{type(error).__name__}: {error}") from error


def _dsn() -> str:
    """Return the URL in asyncpg's form. It is resolved here, because a stored trigger must hold no secret."""
    from tidegate.embedded_postgres.locate import direct_database, locate_database

    return (direct_database() or locate_database()).set(drivername="postgresql").render_as_string(hide_password=False)
