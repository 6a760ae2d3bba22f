"""A shop's customers, delivered whole every day under one name: who they are now, and who they were when."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline

CUSTOMERS = "customer string, name string, city string"


def customers_source(path: Path, **options: Any) -> FileSource:
    """Each version of the file takes the place of the one before it."""
    return FileSource(str(path), schema=CUSTOMERS, mode="snapshot", key=["customer"], **options)


def dimensions_pipeline(
    customers: Any,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
) -> Pipeline:
    pipeline = Pipeline("dimensions", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    known = pipeline.source("customers", customers)
    for name, stream in {"customers": known.current("current"), "history": known.history("history")}.items():
        stream.sink(name, wrap_sink(ParquetSink(str(tables / name), mode="latest")))
    return pipeline
