"""The outbox example beside writers whose transactions commit in any order, killed with SIGKILL again and again, and
restored to earlier checkpoints: its tables are what plain SQL says of the outbox."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from marts import Server
from outbox_lives import Writers
from repeating_driver import CHECKPOINTS, Lives, RepeatingDriver, completed
from sizes import sizes

from outbox.orders import OUTBOX, orders_pipeline
from outbox.plain import QUESTIONS
from tidegate import CheckpointConfig, assembly
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

INSERT = """
INSERT INTO public.outbox (op, customer, cents) SELECT CASE WHEN random() < 0.2 THEN 'cancelled' ELSE 'placed' END,
    'customer ' || (random() * 20)::int, (random() * 1000)::int FROM generate_series(1, %s)
"""


class Rush(Writers):
    sizes = (1, 1, 1, 2, 3, 3, 5, 20, 600)


@contextmanager
def writing(server: Server, seed: int) -> Iterator[None]:
    """Up to six transactions are open at once, for a moment or for seconds."""
    ended = Event()

    def write() -> None:
        random = Random(seed)
        with ExitStack() as stack:
            writers = Rush(server, random, stack, INSERT)
            while not ended.wait(random.uniform(0, 0.5)):
                if writers.number < 6:
                    writers.begin()
                if random.random() < 0.4:
                    writers.insert()
                if random.random() < 0.6:
                    writers.end()
            writers.end(every=True)

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def restore(store: PostgresCheckpointStore, url: str, random: Random) -> None:
    """The home of the driver is that of this process."""
    pipeline = orders_pipeline(checkpoints=CheckpointConfig(**CHECKPOINTS))  # else it would keep one checkpoint
    coordinator = assembly.open_coordinator(pipeline, Settings.from_environment(), url)
    for record in store.history("outbox", 5):
        if record.status is Status.IN_PROGRESS:
            coordinator.abort(record.checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "restored")
    if len(ids := completed(store, "outbox")) > 1:
        coordinator.restore(ToCheckpoint(random.choice(ids[1:6])), Accepted())


@sizes("kills", sample=3, whole=20)
@pytest.mark.parametrize("mode", ["scheduled", "continuous"])
def test_every_event_counts_once_however_often_it_is_killed_and_restored(
    mode: str,
    kills: int,
    tmp_path: Path,
    postgres_url: str,
    shop: Server,
    connect_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", postgres_url)
    shop.do("SET search_path = public", *OUTBOX)
    random, store, mart = Random(f"{mode} {kills}"), assembly.open_store(postgres_url), Server(postgres_url)
    make = partial(RepeatingDriver, tmp_path, postgres_url, mode, connect_server, "outbox.orders:orders_pipeline")
    lives = Lives(store, "outbox", make, random)
    with writing(shop, kills):
        for number in range(kills):
            lives.live(number)
            if number % 5 == 1:
                restore(store, postgres_url, random)
    [rows] = shop.rows("SELECT count(*) FROM public.outbox")
    lives.finish(lambda: mart.rows("SELECT count(*) FROM public.events") == [rows])
    for table, (asked, shown) in QUESTIONS.items():
        assert mart.rows(shown) == shop.rows(asked), f"table {table} differs"
    assert len(shop.rows(QUESTIONS["events"][0])) > 100
