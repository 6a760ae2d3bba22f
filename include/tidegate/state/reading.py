"""Reading of an operator's state from its files alone: current rows, a key's row, or the changes since a checkpoint.

Neither the pipeline's definition nor the store is needed: key columns, types and aggregates are in the metadata of the
runs. A reading is divided into parts, which can be read in several places at once.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.facts.keygroups import KeyGroupRange, key_groups_of
from tidegate.protocol.schema.expiry import Moment, microseconds
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.state.changes import CHANGE, changed_rows, changes_schema, touched_keys
from tidegate.state.expiring import decide_expiry, succeeding
from tidegate.state.fitting import misfits
from tidegate.state.keys import Keys, one_key
from tidegate.state.layout import StateLayout
from tidegate.state.lookup import find_rows
from tidegate.state.opening import open_near, open_run, read_layout
from tidegate.state.runs import newest_of
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import scan, visible_rows


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files of an operator's state at a checkpoint, and at the checkpoint `since` to read changes.

    `cache_dir` None stands for the user's own directory on the machine that reads.
    """

    storage_url: str
    cache_dir: str | None
    state: OperatorState
    since: OperatorState | None = None

    def to_json(self) -> str:
        since = None if self.since is None else self.since.to_json()
        return json.dumps(
            {"storage": self.storage_url, "cache": self.cache_dir, "state": self.state.to_json(), "since": since}
        )

    @classmethod
    def from_json(cls, text: str) -> "StateFiles":
        files = json.loads(text)
        since = None if files["since"] is None else OperatorState.from_json(files["since"])
        return cls(files["storage"], files["cache"], OperatorState.from_json(files["state"]), since)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a reading: the state of one subtask, or its changes since `before`. Small and picklable.

    With `keys`, only the row of a single key.
    """

    now: SubtaskSpec
    before: SubtaskSpec | None = None
    keys: Keys | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches of bounded size. Raise `StateIntegrityError`, `StateSchemaError` and `StorageError`."""
        opened = open_run if self.keys is None else partial(open_near, value=int(self.keys.hashes[0]))
        if self.before is not None:
            slices = touched_keys(self.before, self.now) if self.keys is None else iter((self.keys,))
            tables = (changed_rows(self.before, self.now, keys, opened) for keys in slices)
            yield from (batch for table in tables for batch in table.combine_chunks().to_batches())
        elif self.keys is not None:
            layout = self.now.layout
            found = find_rows(self.now, self.keys.hashes, self.keys.rows, layout.stored.names, opened)
            yield from visible_rows(found.rows, layout).to_batches()
        else:
            yield from scan(self.now)


@dataclass(frozen=True, slots=True)
class Reading:
    """A planned reading: the `pyarrow.Schema` of its rows, and its parts."""

    schema: pa.Schema
    parts: tuple[Part, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all parts, one part after the other."""
        for part in self.parts:
            yield from part.batches()


def open_state(files: StateFiles, key: object = None) -> Reading:
    """Plan a reading, without reading a row yet. With `key` (see `keys.one_key`), plan only the subtask that owns it.

    Raise `ConfigurationError` for a key that does not fit, `StateSchemaError`, `StateIntegrityError` and
    `StorageError`.
    """
    layout = _layout(files, files.state)
    if files.since is not None and files.since.runs:
        layout = _common_layout(files, files.since, layout)
    parts = _parts(files, layout)
    if key is not None:
        keys = one_key(layout, key)
        parts = [replace(part, keys=keys) for part in parts if _owns(part.now, int(keys.hashes[0]))]
    return Reading(layout.rows if files.since is None else changes_schema(layout), tuple(parts))


def _layout(files: StateFiles, state: OperatorState) -> StateLayout:
    """Return the newest layout, in which all runs can be read."""
    return read_layout(files.storage_url, state.where(), newest_of(state.runs))


def _common_layout(files: StateFiles, since: OperatorState, layout: StateLayout) -> StateLayout:
    """Return the newer layout of two checkpoints, in which both are read. A change of the definition is not a change of
    the rows."""
    now, older = files.state, _layout(files, since)
    if older.version > layout.version:
        older, layout = layout, older
    problems = [] if older == layout else misfits(older, layout)
    if now.max_parallelism != since.max_parallelism:
        problems.append(f"max_parallelism was {since.max_parallelism}, and is {now.max_parallelism}")
    if CHANGE in layout.rows.names:
        problems.append(f"it has a column {CHANGE!r} of its own")
    if problems:
        raise StateSchemaError(
            f"The state of {now.where()}, cannot be compared with that at checkpoint {since.checkpoint_id}: "
            f"{'; '.join(problems)}. Read them one after the other."
        )
    return layout


def _parts(files: StateFiles, layout: StateLayout) -> list[Part]:
    specs = _specs(files, files.state, layout)
    if files.since is None:
        return [Part(spec) for spec in specs]
    before = _specs(files, files.since, layout) or [replace(spec, runs=()) for spec in specs]
    return [
        Part(replace(now, key_groups=groups), replace(old, key_groups=groups))
        for now in specs
        for old in before
        if (groups := _common(now.key_groups, old.key_groups)) is not None
    ]


def _specs(files: StateFiles, state: OperatorState, layout: StateLayout) -> list[SubtaskSpec]:
    layout, horizon = _with_expiry(files, state, layout)
    return [
        SubtaskSpec(
            storage_url=files.storage_url,
            cache_dir=files.cache_dir,
            operator=state.operator_id,
            pipeline=state.pipeline_id,
            checkpoint_id=state.checkpoint_id,
            prefix="",
            key_groups=key_groups_of(index, len(state.subtasks), state.max_parallelism),
            max_parallelism=state.max_parallelism,
            layout=layout,
            runs=runs,
            horizon=horizon,
        )
        for index, runs in enumerate(state.subtasks)
    ]


def _with_expiry(files: StateFiles, state: OperatorState, layout: StateLayout) -> tuple[StateLayout, int | None]:
    """Return the layout for a reader in `layout`, and its horizon, with the expiry that held at the checkpoint."""
    moment = Moment(state.checkpoint_id, microseconds(state.triggered_at))
    own = _layout(files, state) if state.runs else layout
    if own.schema.lives_by() == layout.schema.lives_by():
        return layout, decide_expiry(layout, state.runs, moment).horizon
    return succeeding(own, layout, layout.schema, state.runs, moment), None


def _common(one: KeyGroupRange, other: KeyGroupRange) -> KeyGroupRange | None:
    """Return the key groups that both ranges have. After a rescale a subtask shares some with several."""
    if not one.overlaps(other):
        return None
    return KeyGroupRange(max(one.first, other.first), min(one.last, other.last))


def _owns(spec: SubtaskSpec, value: int) -> bool:
    low, high = spec.hashes()
    return low <= value <= high
