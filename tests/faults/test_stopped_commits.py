"""A process that is stopped (SIGSTOP) in the middle of a commit: its successor goes on,
and it changes nothing when it comes back."""

import contextlib
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from stopping_driver import NAME, Committing, StoppingDriver

from tidegate.clock import SystemClock
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.steps.committing import COMMIT_LEASE


class HurriedClock(SystemClock):
    """Has waited as soon as it is asked to."""

    waited = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.waited

    def sleep(self, seconds: float) -> None:
        self.waited += timedelta(seconds=seconds)


def seen(root: str, mode: str) -> list[int]:
    files = Path(root).glob("current/*.parquet" if mode == "latest" else "checkpoint=*/*.parquet")
    return sorted({value for file in files for value in pq.read_table(file, partitioning=None)["k"].to_pylist()})


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_stopped_commit_holds_nobody_up_for_longer_than_its_lease_and_changes_nothing(
    mode: str, tmp_path: Path, postgres_url: str, store: PostgresCheckpointStore
) -> None:
    stopped = StoppingDriver(tmp_path, postgres_url, mode)
    with contextlib.closing(stopped):
        stopped.wait_stopped()
        clock = HurriedClock()
        successor = Committing(str(tmp_path), mode, store, clock)
        assert seen(successor.sink.root, mode) == []
        successor.coordinator.notify(successor.complete("next"))  # whose trigger makes up for what was not notified
        assert clock.waited <= COMMIT_LEASE
        expected = [1, 2] if mode == "append" else [2]
        assert seen(successor.sink.root, mode) == expected
        before = store.history(NAME, 10)
        assert all(record.notified_at is not None for record in before)
        tree = sorted(os.walk(successor.sink.root))
        stopped.send(signal.SIGCONT)
        stopped.finish()  # it looks again, and finds its checkpoint committed
    assert store.history(NAME, 10) == before
    assert seen(successor.sink.root, mode) == expected
    assert sorted(os.walk(successor.sink.root)) == tree
