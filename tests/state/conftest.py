"""Keyed state without Spark: a subtask's program is called directly, with hashes computed here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_operator import Workshop, with_hash

from tidegate.state import mapped_copies, opening
from tidegate.state.decoded_runs import DecodedRuns


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a run stays in memory: what is read is what was written."""
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=0, most=0))


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the smallest run is copied, as all are that lie in remote storage, and its copy is read each time."""
    monkeypatch.setattr(mapped_copies, "IN_PLACE_FILE", 0)
    monkeypatch.setattr(mapped_copies, "IN_PLACE_MEMORY", 0)


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
    return with_hash
