"""Kills the Spark process of a running snapshot, at a moment when some of its subtasks have acknowledged."""

import time

import psutil

from local_stack.processes import Session
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import CheckpointRecord


class SabotageError(CheckpointError):
    """No process was found to kill, so the demonstration could not show the recovery."""


def kill_spark_in_snapshot(
    store: CheckpointStore, pipeline_id: str, request: str, sessions: list[Session], timeout: float = 120.0
) -> tuple[int, CheckpointRecord]:
    """Send SIGKILL to the Java process of the request's snapshot. Return its pid, and the checkpoint as it was just
    before.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        record = _latest(store, pipeline_id, request)
        if record is not None and record.num_acknowledged > 0:
            if record.status is not Status.IN_PROGRESS or record.phase is not Phase.TRIGGERED:
                raise SabotageError(f"Checkpoint {record.checkpoint_id} was acknowledged before Spark could be killed.")
            if killed := _kill_java(sessions):
                return killed, record
        time.sleep(0.02)
    raise SabotageError(f"No snapshot of {request} was seen running on Spark in {timeout:.0f} s.")


def _latest(store: CheckpointStore, pipeline_id: str, request: str) -> CheckpointRecord | None:
    return next((record for record in store.history(pipeline_id, 1) if record.request_id.startswith(request)), None)


def _kill_java(sessions: list[Session]) -> int | None:
    for process in (member for session in sessions for member in session.members()):
        try:
            if process.name() == "java":
                process.kill()
                return int(process.pid)
        except psutil.NoSuchProcess:
            continue
    return None
