"""`tidegate.state.read` and `tidegate.state.options`: names are looked up in a real database, then files are read."""

from pathlib import Path

import pyarrow as pa
import pytest
from state_operator import OPERATOR, PIPELINE, Operator, Workshop

import tidegate
from tidegate.protocol.facts.errors import CheckpointNotRetainedError, OperatorNotFoundError, StateIntegrityError
from tidegate.state import opening
from tidegate.state.decoded_runs import DecodedRuns
from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles

LAYOUT = StateLayout.of_rows(pa.schema([("carrier", pa.string()), ("n", pa.int64())]), ["carrier"])


@pytest.fixture
def operator(tmp_path: Path, store, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """With two checkpoints, in the project that this process's environment names."""
    for name, value in (("HOME", str(tmp_path)), ("DATABASE_URL", postgres_url), ("CACHE", str(tmp_path / "cache"))):
        monkeypatch.setenv(f"TIDEGATE_{name}", value)
    monkeypatch.delenv("TIDEGATE_STORAGE", raising=False)
    operator = Operator(Workshop(tmp_path, tmp_path / ".tidegate" / "checkpoints"), LAYOUT)
    for rows in ({"carrier": ["AA", None], "n": [1, 2]}, {"carrier": ["AA", "UA"], "n": [3, 4]}):
        operator.upsert(pa.table(rows), parallelism=2)
        operator.record(store)
    return operator


@pytest.mark.usefixtures("operator")
def test_rows_arrive_as_arrow() -> None:
    found = tidegate.state.read(PIPELINE, OPERATOR)
    assert isinstance(found, pa.RecordBatchReader)
    assert found.schema == LAYOUT.rows
    assert {row["carrier"]: row["n"] for row in found.read_all().to_pylist()} == {"AA": 3, "UA": 4, None: 2}
    assert tidegate.state.read(PIPELINE, OPERATOR, checkpoint=1, key="AA").read_all().to_pylist() == [
        {"carrier": "AA", "n": 1}
    ]
    assert tidegate.state.read(PIPELINE, OPERATOR, key="XX").read_all().num_rows == 0
    changes = tidegate.state.read(PIPELINE, OPERATOR, changes_since=1).read_all().to_pylist()
    assert sorted((row["carrier"], row["n"], row["_change"]) for row in changes) == [
        ("AA", 3, "upsert"), ("UA", 4, "upsert")
    ]  # fmt: skip
    with pytest.raises(OperatorNotFoundError, match="Those with keyed state: carrier_delays"):
        tidegate.state.read(PIPELINE, "carriers")


def test_what_spark_is_given_are_files(operator: Operator) -> None:
    files = StateFiles.from_json(tidegate.state.options(PIPELINE, OPERATOR, changes_since=1)["files"])
    assert files.storage_url == str(operator.workshop.storage)
    assert (files.state.checkpoint_id, files.since and files.since.checkpoint_id) == (2, 1)
    assert files.state.runs == operator.state().runs


def test_a_checkpoint_that_was_replaced_while_it_was_read_is_told_as_that(
    operator: Operator, store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not as a lost file, which somebody would have to restore. Who reads has not written the state."""
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=0, most=0))
    reader = tidegate.state.read(PIPELINE, OPERATOR, checkpoint=1)
    for path in operator.workshop.written():
        path.unlink()
    with pytest.raises(StateIntegrityError, match="is missing from checkpoint storage"):
        tidegate.state.read(PIPELINE, OPERATOR)
    operator.snapshots = {}
    operator.upsert(pa.table({"carrier": ["AA"], "n": [0]}))
    operator.record(store, subsume=[1, 2])
    with pytest.raises(CheckpointNotRetainedError, match="newer ones have replaced it"):
        reader.read_all()


def test_there_is_nothing_else_that_is_public() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'write'"):
        tidegate.state.write  # noqa: B018
