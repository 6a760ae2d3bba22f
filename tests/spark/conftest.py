"""What plays the coordinator and the upstream world, on the session that all tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_checkpoints import Checkpoints, Landing

from tidegate.pipeline.definition import Pipeline


@pytest.fixture
def open_checkpoints(spark: SparkSession, tmp_path: Path) -> Callable[[Pipeline], Checkpoints]:
    return lambda pipeline: Checkpoints(pipeline, spark, tmp_path)


@pytest.fixture
def landing(tmp_path: Path) -> Callable[[str], Landing]:
    return lambda name: Landing(tmp_path / "landing" / name)
