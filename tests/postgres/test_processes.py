"""Several processes on one database: the pipeline's lock holds between them, and they wake each other."""

import subprocess
from pathlib import Path

import store_steps
from store_steps import PIPELINE

from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status

PROGRAM = """
import sys
from store_steps import PIPELINE, at, triggered
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.reasons import FailureReason

store = PostgresCheckpointStore(connect(sys.stdin.read()))
won = 0
for _ in range(8):
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        oldest = transaction.in_progress()[0].checkpoint_id if transaction.in_progress() else 0
        won += transaction.fail(oldest, FailureReason.TASK_FAILURE, "one of many", at(1))
print(won)
"""


def test_processes_that_trigger_and_fail_at_once_share_one_sequence(
    store: PostgresCheckpointStore, postgres_url: str, quick_python: list[str]
) -> None:
    assert not store.wait_for_change(PIPELINE, 0)
    processes = [
        subprocess.Popen(
            [*quick_python, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(store_steps.__file__).parent,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(postgres_url)
        process.stdin.close()
        process.stdin = None
    assert store.wait_for_change(PIPELINE, 60)
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    history = store.history(PIPELINE, 100)
    assert [checkpoint.checkpoint_id for checkpoint in history] == list(range(24, 0, -1))
    assert sum(int(won) for won, _ in answers) == 24
    assert {checkpoint.status for checkpoint in history} == {Status.FAILED}
