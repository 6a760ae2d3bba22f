"""A topic whose records are counted by key, to topics: each record, and each new count. Its process may die by itself,
in the middle of a transaction of Kafka's."""

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from clicks_site import checkpoint_of
from confluent_kafka import Message

from tidegate import CheckpointConfig, KafkaSink, KafkaSource, Pipeline, count

#: The steps of a transaction, and how often each is taken before it is over.
STEPS = {"fence_others": 1, "begin": 1, "produce": 20, "flush": 2, "commit": 1}


def counting_pipeline(
    records: str, copies: str, counts: str, checkpoints: CheckpointConfig, dies: str | None = None
) -> Pipeline:
    """`dies`: a step, whether before or after it, and how many times it was taken by then; as text, with spaces."""
    if dies is not None:
        _die(*dies.split())
    pipeline = Pipeline("counting", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    rows = pipeline.source("records", KafkaSource(records, splits=2, schema="id BIGINT, page STRING"))
    rows.sink("copies", KafkaSink(copies))
    rows.key_by("page").aggregate("pages", clicks=count()).sink("counts", KafkaSink(counts, key="page"))
    return pipeline


def place_to_die(random: Random) -> str:
    step = random.choice(list(STEPS))
    return f"{step} {random.choice(['before', 'after'])} {random.randint(1, 2 * STEPS[step])}"


def _die(step: str, when: str, times: str) -> None:
    from tidegate.kafka.transactions import Transaction

    taken, real = 0, getattr(Transaction, step)

    def takes(self: Any, *given: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken == int(times) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(self, *given)
        if taken == int(times):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(Transaction, step, takes)


def check(records: Sequence[dict[str, Any]], copies: Sequence[Message], counts: Sequence[Message]) -> None:
    """What an independent consumer has read of the topics: nothing twice, nothing missing, and both topics are of the
    same records after each checkpoint."""
    copied = [json.loads(each.value() or b"") for each in copies]
    assert sorted(row["id"] for row in copied) == sorted(row["id"] for row in records)
    by_checkpoint: dict[int, Counter[str]] = {}
    for message, row in zip(copies, copied, strict=True):
        by_checkpoint.setdefault(checkpoint_of(message), Counter())[row["page"]] += 1
    shown: dict[int, dict[str, int]] = {}
    for message in counts:
        row = json.loads(message.value() or b"")
        of_checkpoint = shown.setdefault(checkpoint_of(message), {})
        assert row["page"] not in of_checkpoint, "a count was written twice"
        of_checkpoint[row["page"]] = row["clicks"]
    assert shown.keys() == by_checkpoint.keys()
    so_far: Counter[str] = Counter()
    for id_ in sorted(shown):
        so_far += by_checkpoint[id_]
        assert shown[id_] == {page: so_far[page] for page in by_checkpoint[id_]}, f"checkpoint {id_}"
