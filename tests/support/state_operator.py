"""Keyed state without Spark: specs over one storage, and an operator whose checkpoints follow one another.

A subtask's program is called directly, with hashes computed here. What a restore gives a subtask is decided by the real
rules.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.keygroups import KeyGroupRange, key_group_of, key_groups_of, subtask_of
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    CompactedRun,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.steps.restored_snapshots import restore_snapshots
from tidegate.state.compaction import compact, plan_compaction
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import Changed, SubtaskSpec, aggregate, scan, upsert

PIPELINE, OPERATOR = "flight_delays", "carrier_delays"
MAX_PARALLELISM = 128
GROUPS = 16
AT = datetime(2026, 1, 1, tzinfo=UTC)


def with_hash(table: pa.Table, keys: list[str], mask: int = -1) -> pa.Table:
    """The table with its `_hash`; a mask makes different keys share hashes."""
    hashes = spark_hash([table.column(name) for name in keys]).to_numpy() & mask
    return table.add_column(0, "_hash", pa.array(hashes))


class Workshop:
    """Makes specs with file names of their own, all over one storage and one cache."""

    def __init__(self, root: Path, storage: Path | None = None) -> None:
        self.storage = storage or root / "storage"
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
            operator=OPERATOR,
            pipeline=PIPELINE,
            checkpoint_id=checkpoint_id,
            prefix=f"{PIPELINE}/chk-{checkpoint_id}/{OPERATOR}/0-1-{self.files}",
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


class Operator:
    """Plays the coordinator for one keyed operator: snapshots, compactions and the real restore rules."""

    def __init__(self, workshop: Workshop, layout: StateLayout, mask: int = -1) -> None:
        self.workshop, self.layout, self.mask = workshop, layout, mask
        self.checkpoint = 0
        self.parallelism = 1
        self.snapshots: dict[SubtaskId, Snapshot] = {}
        self.changed: dict[SubtaskId, Changed] = {}
        self.compactions: list[CompactedRun] = []

    def begin(self, parallelism: int) -> dict[SubtaskId, SubtaskSpec]:
        """The specs of the next checkpoint, restored from the one before at another parallelism."""
        latest = record(self.checkpoint, self.parallelism) if self.checkpoint else None
        plan = OperatorPlan(OPERATOR, parallelism, GROUPS)
        restored = restore_snapshots(latest, self.snapshots, [plan], self.compactions, False)
        self.checkpoint, self.parallelism, self.compactions = self.checkpoint + 1, parallelism, []
        ids = [SubtaskId(OPERATOR, index) for index in range(parallelism)]
        return {subtask: self.spec(subtask, restored.get(subtask, Snapshot())) for subtask in ids}

    def spec(self, subtask: SubtaskId, snapshot: Snapshot) -> SubtaskSpec:
        groups = key_groups_of(subtask.subtask_index, self.parallelism, GROUPS)
        spec = self.workshop.spec(self.layout, snapshot.handles, groups, checkpoint_id=self.checkpoint)
        return replace(spec, max_parallelism=GROUPS)

    def split(self, table: pa.Table) -> dict[SubtaskId, pa.Table]:
        """Rows by the subtask that owns their key."""
        table = with_hash(table, [column.name for column in self.layout.hashed], self.mask)
        rows = defaultdict(list)
        for at, value in enumerate(table.column("_hash").to_pylist()):
            group = key_group_of(value & (2**64 - 1), GROUPS)
            rows[SubtaskId(OPERATOR, subtask_of(group, self.parallelism, GROUPS))].append(at)
        return {subtask: table.take(pa.array(places)) for subtask, places in rows.items()}

    def finish(self, specs: dict[SubtaskId, SubtaskSpec], changed: dict[SubtaskId, Changed]) -> None:
        self.snapshots, self.changed = {}, changed
        for subtask, spec in specs.items():
            handle = changed[subtask].write() if subtask in changed else None
            self.snapshots[subtask] = Snapshot((*spec.runs, *([handle] if handle else [])))

    def merge(self, which: Any, only: int | None = None) -> None:
        """Compact runs of every subtask, or of one: those planned, or any neighbours."""
        for subtask, snapshot in self.snapshots.items():
            if only is not None and subtask.subtask_index != only % self.parallelism:
                continue
            spec = self.spec(subtask, snapshot)
            chosen = plan_compaction(spec) if which == "planned" else spec.runs[which[0] : which[0] + which[1]]
            if chosen:
                views = tuple(handle.view for handle in chosen)
                self.compactions.append(CompactedRun(subtask, compact(spec, chosen), views))

    def upsert(self, table: pa.Table, parallelism: int | None = None) -> None:
        """A checkpoint in which these rows arrive."""
        specs = self.begin(parallelism or self.parallelism)
        changed = {id_: upsert(part.to_batches(), specs[id_]) for id_, part in self.split(table).items()}
        self.finish(specs, changed)

    def aggregate(self, table: pa.Table, parallelism: int | None = None) -> None:
        """Likewise, for declared aggregates."""
        specs = self.begin(parallelism or self.parallelism)
        changed = {id_: aggregate(part.to_batches(), specs[id_]) for id_, part in self.split(table).items()}
        self.finish(specs, changed)

    def scan(self) -> pa.Table:
        """Everything, by the subtasks of the latest checkpoint. A table of current rows shows the same, without reading
        what was written in it."""
        batches = []
        for subtask, snapshot in self.snapshots.items():
            found = list(scan(self.spec(subtask, snapshot)))
            batches += found
            if subtask in self.changed and self.changed[subtask].spec.layout == self.layout:
                assert said(self.changed[subtask].current()) == said(found)
        return pa.Table.from_batches(batches, self.layout.rows)

    def state(self) -> OperatorState:
        """As a reader finds it."""
        ids = [SubtaskId(OPERATOR, index) for index in range(self.parallelism)]
        runs = tuple(self.snapshots[id_].handles for id_ in ids)
        return OperatorState(PIPELINE, OPERATOR, self.checkpoint, GROUPS, runs, AT)

    def record(self, store: CheckpointStore, subsume: Sequence[int] = ()) -> int:
        """Enter the checkpoint into a store as completed; those it pushes out leave in the same transaction."""
        snapshots = {**self.snapshots, SubtaskId("source", 0): Snapshot(position={"files": 1})}
        with store.transaction(PIPELINE) as tx:
            id_ = tx.next_checkpoint_id()
            assert id_ == self.checkpoint
            pending = record(id_, self.parallelism)
            source = OperatorPlan("source", 1, GROUPS)
            tx.add_pending(
                replace(pending, status=Status.IN_PROGRESS, phase=Phase.TRIGGERED, num_subtasks=len(snapshots),
                        operators=(source, *pending.operators)), list(snapshots)
            )  # fmt: skip
            tx.begin_attempt(id_)
            tx.record_acknowledgements(id_, [Acknowledgement(key, 1, known) for key, known in snapshots.items()], AT)
            tx.advance(id_, Phase.TRIGGERED, Phase.ACKNOWLEDGED, AT)
            tx.advance(id_, Phase.ACKNOWLEDGED, Phase.VALIDATED, AT)
            assert tx.complete(id_, AT, metadata_path(PIPELINE, id_), 1, 1)
            tx.subsume(subsume)
        return id_


def said(batches: Iterable[pa.RecordBatch]) -> str:
    """Rows as text, in which every NaN is the same."""
    return str([row for batch in batches for row in batch.to_pylist()])


def record(checkpoint_id: int, parallelism: int) -> CheckpointRecord:
    plans = (OperatorPlan(OPERATOR, parallelism, GROUPS),)
    return CheckpointRecord(
        PIPELINE, checkpoint_id, f"r{checkpoint_id}", False, Status.COMPLETED, Phase.VALIDATED, AT, AT, parallelism,
        operators=plans,
    )  # fmt: skip
