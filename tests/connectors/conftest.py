"""What the connector tests share: a project home, a checkpoint storage, files as they arrive, one Spark session."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.ports import SourceContext
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def landing(home: Path) -> Path:
    directory = home / "landing"
    directory.mkdir()
    return directory


@pytest.fixture
def storage(home: Path) -> ArrowCheckpointStorage:
    return ArrowCheckpointStorage(str(home / "checkpoints"))


@pytest.fixture
def context(storage: ArrowCheckpointStorage) -> Callable[..., SourceContext]:
    def make(checkpoint_id: int, split: int = 0, attempt: int = 1) -> SourceContext:
        return SourceContext(storage, checkpoint_id, f"p/chk-{checkpoint_id}/in/{split}-{attempt}-x")

    return make


@pytest.fixture
def append() -> ParquetSink:
    return ParquetSink("tables/events")


@pytest.fixture
def latest() -> ParquetSink:
    return ParquetSink("tables/state", mode="latest")
