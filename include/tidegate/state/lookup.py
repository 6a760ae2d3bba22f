"""Lookup of the current rows of given keys in a subtask's runs, newest first.

It is vectorised: the only loop that depends on the data steps over keys that share a 64-bit hash.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.records import StateHandle
from tidegate.state.columns import Bools, Hashes, Ints, integers, no_rows, one_chunk, same_rows
from tidegate.state.opening import RunPart, open_run
from tidegate.state.spec import SubtaskSpec

Opened = Callable[[SubtaskSpec, StateHandle], Sequence[RunPart]]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a lookup: `positions` (ascending) of the keys that have a row, and those rows in the same order (a
    `pyarrow.Table`)."""

    positions: Ints
    rows: pa.Table


@dataclass(slots=True)
class _Search:
    hashes: Hashes
    keys: pa.Table
    open: Ints
    positions: list[Ints] = field(default_factory=list)
    rows: list[pa.RecordBatch] = field(default_factory=list)


def find_rows(
    spec: SubtaskSpec, hashes: Hashes, keys: pa.Table, columns: list[str], opened: Opened = open_run
) -> Found:
    """Return `columns` of the current rows of `keys` (a `pyarrow.Table`, each key once), which are sorted by `hashes`.

    `opened` returns the parts of a run in the order of their hashes. Parts without any of `hashes` may be missing.
    """
    search = _Search(hashes, keys, np.arange(len(hashes)))
    for run in reversed(spec.runs):
        if len(search.open) == 0:
            break
        for part in opened(spec, run):
            _search_part(search, part, columns)
    return _gathered(search, pa.schema([spec.layout.stored.field(name) for name in columns]))


def _search_part(search: _Search, part: RunPart, columns: list[str]) -> None:
    """Search one part of a run. Keys found in it, alive or not, are not searched in older runs."""
    hashes = search.hashes[search.open]
    start = int(np.searchsorted(hashes, part.hashes[0], side="left"))
    stop = int(np.searchsorted(hashes, part.hashes[-1], side="right"))
    wanted = hashes[start:stop]
    rows = np.searchsorted(part.hashes, wanted)
    hit = np.flatnonzero(part.hashes[rows] == wanted)
    places, rows = start + hit, rows[hit]
    same = _same_keys(search, part, search.open[places], rows)
    if not same.all():
        places, rows = _stepped(search, part, places, rows, same)
    if len(rows) == 0:
        return
    positions = search.open[places]
    search.open = np.delete(search.open, places)
    gone = part.gone(rows)
    if gone is not None:
        positions, rows = positions[~gone], rows[~gone]
    search.positions.append(positions)
    search.rows.append(part.select(columns, integers(rows)))


def _same_keys(search: _Search, part: RunPart, positions: Ints, rows: Ints) -> Bools:
    names = search.keys.schema.names
    wanted, found = integers(positions), integers(rows)
    searched = [one_chunk(search.keys.column(name)).take(wanted) for name in names]
    return same_rows(searched, part.select(names, found).columns, len(rows))


def _stepped(search: _Search, part: RunPart, places: Ints, rows: Ints, same: Bools) -> tuple[Ints, Ints]:
    """Step from row to row until the key, or the end of its hash, is reached, because other keys may share the hash."""
    found_places, found_rows = [places[same]], [rows[same]]
    places, rows = places[~same], rows[~same]
    while len(rows):
        rows = rows + 1
        inside = rows < len(part.hashes)
        inside[inside] = part.hashes[rows[inside]] == search.hashes[search.open[places[inside]]]
        places, rows = places[inside], rows[inside]
        same = _same_keys(search, part, search.open[places], rows)
        found_places.append(places[same])
        found_rows.append(rows[same])
        places, rows = places[~same], rows[~same]
    all_places = np.concatenate(found_places)
    order = np.argsort(all_places)
    return all_places[order], np.concatenate(found_rows)[order]


def _gathered(search: _Search, schema: pa.Schema) -> Found:
    positions = np.concatenate([np.empty(0, np.int64), *search.positions])
    if not search.rows or not schema.names:
        return Found(np.sort(positions), no_rows(schema))
    table = pa.Table.from_batches(search.rows, schema).combine_chunks()
    if len(search.rows) > 1:
        order = np.argsort(positions, kind="stable")
        positions, table = positions[order], table.take(integers(order))
    return Found(positions, table)
