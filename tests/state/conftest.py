"""Keyed state without Spark: a subtask's program is called directly, with hashes computed here."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.protocol.keygroups import KeyGroupRange, key_groups_of
from tidegate.protocol.records import StateHandle
from tidegate.state import cache
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import SubtaskSpec

MAX_PARALLELISM = 128


class Workshop:
    """Makes specs with file names of their own, all over one storage and one cache."""

    def __init__(self, root: Path) -> None:
        self.storage = root / "storage"
        self.cache = root / "cache"
        self.copies = self.cache / "runs"
        self.files = 0

    def spec(
        self,
        layout: StateLayout,
        runs: tuple[StateHandle | None, ...] = (),
        key_groups: KeyGroupRange | None = None,
        checkpoint_id: int = 7,
    ) -> SubtaskSpec:
        self.files += 1
        return SubtaskSpec(
            storage_url=str(self.storage),
            cache_dir=str(self.cache),
            operator="carrier_delays",
            pipeline="flight_delays",
            checkpoint_id=checkpoint_id,
            prefix=f"flight_delays/chk-{checkpoint_id}/carrier_delays/0-1-{self.files}",
            key_groups=key_groups or key_groups_of(0, 1, MAX_PARALLELISM),
            max_parallelism=MAX_PARALLELISM,
            layout=layout,
            runs=tuple(run for run in runs if run is not None),
        )

    def next(self, spec: SubtaskSpec, *runs: StateHandle | None) -> SubtaskSpec:
        """The spec of the checkpoint that follows, with further runs."""
        following = self.spec(spec.layout, checkpoint_id=spec.checkpoint_id + 1)
        return replace(following, runs=(*spec.runs, *(run for run in runs if run is not None)))

    def file(self, handle: StateHandle) -> Path:
        return self.storage / handle.path

    def written(self) -> list[Path]:
        return sorted(path for path in self.storage.rglob("*") if path.is_file())


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the smallest run is copied, as all are that lie in remote storage."""
    monkeypatch.setattr(cache, "IN_PLACE_FILE", 0)
    monkeypatch.setattr(cache, "IN_PLACE_MEMORY", 0)


@pytest.fixture(params=["in place", "copied"])
def reading(request: pytest.FixtureRequest) -> None:
    """Both ways to read a run."""
    if request.param == "copied":
        request.getfixturevalue("copied")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def new_workshop(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workshop]:
    """A workshop for each of a property test's examples."""
    return lambda: Workshop(tmp_path_factory.mktemp("state"))


@pytest.fixture
def hashed() -> Any:
    """`hashed(table, keys, mask)`: the table with its `_hash`; a mask makes different keys share hashes."""

    def add(table: pa.Table, keys: list[str], mask: int = -1) -> pa.Table:
        hashes = spark_hash([table.column(name) for name in keys]).to_numpy() & mask
        return table.add_column(0, "_hash", pa.array(hashes))

    return add
