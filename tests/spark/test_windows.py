"""Windows in event time: each is emitted once, with what its rows were, whatever happens; late rows are kept apart."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from listed import Listed
from sizes import later, sizes
from spark_checkpoints import Checkpoints
from tallies import EXACTLY_ONCE, UNALIGNED
from window_clicks import ClickShop

from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, window
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.errors import PipelineDefinitionError
from tidegate.protocol.records import AcknowledgeResult, CheckpointKind, SubtaskId

pytestmark = pytest.mark.spark


def take(checkpoints: Checkpoints, stop: StopMode | None = None) -> None:
    """A whole checkpoint, with what readers see of it."""
    checkpoints.trigger()
    checkpoints.attempt += 1
    task = checkpoints.task()
    if stop is not None:
        task = replace(task, kind=CheckpointKind.SYNC_SAVEPOINT, stop=stop)
    checkpoints.region.snapshot(task, lambda acks: acknowledge(checkpoints, acks))
    complete(checkpoints)


def acknowledge(checkpoints: Checkpoints, acks: Any) -> Any:
    checkpoints.acknowledged |= {ack.subtask: ack for ack in acks}
    return {ack.subtask: AcknowledgeResult.SUCCESS for ack in acks}


def complete(checkpoints: Checkpoints) -> None:
    checkpoints.complete()
    for sink in checkpoints.graph.sinks:
        checkpoints.commit(sink.name)


def rescaled(checkpoints: Checkpoints, pipeline: Pipeline) -> Checkpoints:
    restored = restored_by(checkpoints.graph, compile_graph(pipeline), checkpoints.completed)
    root = checkpoints.root
    return Checkpoints(pipeline, checkpoints.session, root, restored, checkpoint_id=checkpoints.checkpoint_id)


def test_windows_agree_with_the_plain_computation_at_any_parallelism(spark: Any, tmp_path: Path) -> None:
    shop = ClickShop(tmp_path, seed=1)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    for parallelism in (2, 3, 1, 2):
        checkpoints = rescaled(checkpoints, shop.pipeline(parallelism))
        shop.deliver()
        take(checkpoints)
        shop.check()
    take(checkpoints, StopMode.DRAIN)
    shop.plain.end()
    shop.check()
    shop.check_counted()
    assert checkpoints.rows("state:hourly") == []
