"""Workload W on Tidegate: one checkpoint an epoch, through the real coordinator, Postgres and a Spark region.

Its seconds are all of them: from the trigger until every step has returned, compaction and deletions included.
"""

import os
import time
from collections.abc import Mapping
from typing import Any

import conditions
from conditions import PARALLELISM
from session import Session, given_session, mark, run_epochs
from sqlalchemy import NullPool, create_engine, text
from stopwatch import Stopwatch, TimedRegion, TimedStorage, TimedStore
from workload import SCHEMA, STRAIGHT, Epoch

from tidegate import Pipeline, assembly, count, max_, sum_
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.names import Target
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage


def main() -> None:
    session = given_session()
    session.landing.mkdir(parents=True, exist_ok=True)
    settings = settings_of(session)
    pipeline = pipeline_of(session)
    region = assembly.open_region(pipeline, conditions.spark(session.spark_settings()), settings)
    watch = Stopwatch()
    store = assembly.open_store()  # TIDEGATE_DATABASE_URL
    storage = ArrowCheckpointStorage(settings.storage)
    coordinator = CheckpointCoordinator(pipeline, TimedStore(store, watch), TimedStorage(storage, watch), SystemClock())
    run_epochs(session, lambda epoch: take(coordinator, TimedRegion(region, watch), watch, epoch), log_position)
    if session.restarted:
        latest = store.history(pipeline.name, 1)[0]
        subtasks = store.subtasks(pipeline.name, latest.checkpoint_id)
        totals = region.frame(Target.parse("state:totals"), subtasks, latest)
        assert totals is not None
        totals.write.parquet(str(session.totals))
    mark(session, phase="done")
    region.session.stop()


def settings_of(session: Session) -> Settings:
    root = session.root
    return Settings(home=root, storage=str(session.checkpoints), cache=str(root / "cache"), docs=root / "docs")


def pipeline_of(session: Session) -> Pipeline:
    """One for each number of keys: their checkpoints lie in one database."""
    pipeline = Pipeline(f"benchmark_{session.workload.name}", parallelism=PARALLELISM)
    workload = session.workload
    events = pipeline.source("events", FileSource(str(session.landing), format=workload.format, schema=SCHEMA))
    rows = events if workload.shape == STRAIGHT else events.transform(workload.transformed)
    rows.key_by("key").aggregate("totals", events=count(), total=sum_("value"), largest=max_("value"))
    return pipeline


def log_position() -> int:
    """Bytes that the whole Postgres server has ever written to its log."""
    engine = create_engine(os.environ["TIDEGATE_DATABASE_URL"], poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT pg_current_wal_lsn() - '0/0'")).scalar_one())


def take(
    coordinator: CheckpointCoordinator, region: TimedRegion, watch: Stopwatch, epoch: Epoch
) -> tuple[float, Mapping[str, float]]:
    watch.reset()
    begin = time.perf_counter()
    decision = coordinator.trigger(f"epoch {epoch.number}")
    if not isinstance(decision, Triggered):
        raise RuntimeError(f"The checkpoint of {epoch.file} was not triggered: {decision}")
    checkpoint(coordinator, decision.checkpoint_id, region)
    seconds = time.perf_counter() - begin
    return seconds, watch.split(seconds)


def checkpoint(coordinator: CheckpointCoordinator, checkpoint_id: int, region: Any, validator: Any = None) -> None:
    """The steps of the command line, without a progress bar. Where nothing is to be judged, no validator is asked."""
    coordinator.snapshot(checkpoint_id, region)
    coordinator.validate(checkpoint_id, validator)
    coordinator.finalize(checkpoint_id, notifies=True)
    coordinator.notify(checkpoint_id)


if __name__ == "__main__":
    main()
