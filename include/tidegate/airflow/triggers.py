"""Waits in the triggerer until it is time to look: at a checkpoint (all acknowledged, ended, or past its deadline), or at
whether a request that waits may start.

It decides nothing; the task looks itself. A notification wakes it, a look now and then makes up for a lost one, and a
database that is away is waited for. What is stored of it is two ids and a number: it finds the database on its own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_random_exponential

from tidegate.protocol.errors import StoreUnavailableError
from tidegate.protocol.lifecycle import Phase, Status

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger("tidegate")

CHANNEL = "tidegate"  # of NOTIFY; the payload is the pipeline's id
LOOK = """
SELECT status, phase, deadline FROM tidegate.checkpoints WHERE pipeline_id = $1 AND checkpoint_id = $2
"""
#: Seconds a connection attempt or a look may take before it counts as lost.
PATIENCE = 10.0
#: The longest pause, in seconds, between two attempts to reach the database.
LONGEST_PAUSE = 15.0


class DatabaseLostError(Exception):
    """The database went away while the trigger waited."""


class PipelineTrigger(BaseTrigger):
    """Fires once when something about the pipeline was committed, or after `poll_interval` seconds."""

    def __init__(self, pipeline_id: str, poll_interval: float = 5.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline_id = pipeline_id
        self.poll_interval = poll_interval

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
        """Raises `DatabaseLostError` when the connection fails or breaks."""
        async with _listening(self.pipeline_id) as (_, woken):
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), self.poll_interval)


class AcknowledgeTrigger(PipelineTrigger):
    """Fires once when the checkpoint is no longer `IN_PROGRESS/TRIGGERED`, does not exist, or is overdue."""

    def __init__(self, pipeline_id: str, checkpoint_id: int, poll_interval: float = 5.0) -> None:
        super().__init__(pipeline_id, poll_interval)
        self.checkpoint_id = checkpoint_id

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "checkpoint_id": self.checkpoint_id}

    async def _wait(self) -> None:
        async with _listening(self.pipeline_id) as (connection, woken):
            while True:
                woken.clear()
                wait = self._time_to_wait(await connection.fetchrow(LOOK, self.pipeline_id, self.checkpoint_id))
                if wait <= 0:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), wait)
                if connection.is_closed():
                    raise DatabaseLostError("The database closed the connection.")

    def _time_to_wait(self, row: Any) -> float:
        """Seconds until the next look at the latest; none if it is time for the sensor."""
        if row is None or (row["status"], row["phase"]) != (Status.IN_PROGRESS, Phase.TRIGGERED):
            return 0.0
        remaining: float = (row["deadline"] - datetime.now(UTC)).total_seconds()
        return min(self.poll_interval, remaining)


@asynccontextmanager
async def _listening(pipeline_id: str) -> AsyncIterator[tuple["Connection[Any]", asyncio.Event]]:
    """A connection, and an event that is set when something about the pipeline was committed or the connection broke."""
    import asyncpg

    woken = asyncio.Event()

    def notified(connection: object, pid: int, channel: str, payload: object) -> None:
        if payload == pipeline_id:
            woken.set()

    try:
        connection = await asyncpg.connect(await asyncio.to_thread(_dsn), timeout=PATIENCE, command_timeout=PATIENCE)
        try:
            connection.add_termination_listener(lambda _: woken.set())
            await connection.add_listener(CHANNEL, notified)
            yield connection, woken
        finally:
            connection.terminate()  # needs no answer from a database that may be gone
    # OSError: timeouts and resets too; StoreUnavailableError: an embedded server that is full or is being started
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, StoreUnavailableError) as error:
        raise DatabaseLostError(f"{type(error).__name__}: {error}") from error


def _dsn() -> str:
    """As asyncpg takes it. Resolved here, where it is used: what is stored of a trigger must hold no secret."""
    from tidegate.postgres.locate import locate_database

    return locate_database().set(drivername="postgresql").render_as_string(hide_password=False)
