"""The data between two DAG runs: tables as readers see them, and positions and state as they are stored.

If two observations are equal, nothing has changed, down to the last byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from flights import lake, mart
from flights.layout import TABLES
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.records import HandleKind, StateHandle


@dataclass(frozen=True, slots=True)
class Content:
    """The amount of some data, and a digest of all of it."""

    amount: int
    digest: str


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation: `tables` in rows, `positions` of the sources in files read, `state` of the operators in rows of
    runs.
    """

    tables: dict[str, Content]
    positions: dict[str, Content]
    state: dict[str, Content]


def observe(store: CheckpointStore, pipeline_id: str, home: Path, database_url: str) -> Observation:
    """Observe the tables below `home` and in the database, and the state that the next checkpoint would start from."""
    positions: dict[str, list[StateHandle]] = {}
    state: dict[str, list[StateHandle]] = {}
    with store.transaction(pipeline_id) as transaction:
        latest = transaction.latest_completed()
        subtasks = transaction.subtasks(latest.checkpoint_id) if latest else {}
    for subtask in sorted(subtasks):
        for handle in subtasks[subtask].snapshot.handles:
            if handle.kind is HandleKind.POSITION:
                positions.setdefault(subtask.operator_id, []).append(handle)
            elif handle.kind is HandleKind.RUN:
                state.setdefault(subtask.operator_id, []).append(handle)
    tables = {name: _table(home / "tables" / path) for name, path in TABLES.items()}
    iceberg = {name: _files(lake.files(database_url, table)) for name, table in lake.TABLES.items()}
    return Observation(
        tables | {"carrier_mart": _rows(mart.rows(database_url))} | iceberg,
        {name: _handles(handles) for name, handles in positions.items()},
        {name: _handles(handles) for name, handles in state.items()},
    )


def _handles(handles: list[StateHandle]) -> Content:
    recorded = "".join(f"{handle.path} {handle.checksum}\n" for handle in handles)
    return Content(sum(handle.rows for handle in handles), sha256(recorded.encode()).hexdigest())


def _rows(rows: list[tuple[Any, ...]]) -> Content:
    return Content(len(rows), sha256(repr(rows).encode()).hexdigest())


def _table(directory: Path) -> Content:
    import pyarrow.parquet as pq  # a heavy import; the demonstration should print something first

    return _files([(file, pq.read_metadata(file).num_rows) for file in _visible(directory)])


def _files(files: list[tuple[Path, int]]) -> Content:
    digest = sha256()
    for file, _ in files:
        digest.update(f"{file}\n".encode())
        digest.update(file.read_bytes())
    return Content(sum(rows for _, rows in files), digest.hexdigest())


def _visible(directory: Path) -> Iterator[Path]:
    """Yield the files that a reader of the directory opens: no part of their path begins with `_` or a dot."""
    for file in sorted(directory.rglob("*.parquet")):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(directory).parts):
            yield file
