"""The choice of one checkpoint as of which several tables are read.

Sinks show a checkpoint one after the other, and a restore takes them back one after the other. So a reader never gets
the rows that they show at the moment. It gets one checkpoint that all of them have committed, and finds its rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.branches import Branch, Restore, branch_of
from tidegate.protocol.facts.errors import (
    CheckpointInDoubtError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import is_sink
from tidegate.protocol.facts.records import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Cut:
    """A checkpoint as of which tables are read. `branch` has all checkpoints whose rows belong to it."""

    record: CheckpointRecord
    branch: Branch


def is_shown(record: CheckpointRecord, sinks: Collection[str]) -> bool:
    """Whether all of these sinks, by operator id, have committed a completed checkpoint. Sinks in the commit have shown
    it since then. Performs no I/O."""
    expected = sinks or {plan.operator_id for plan in record.operators if is_sink(plan.operator_id)}
    return record.notified_at is not None or set(expected) <= set(record.committed_sinks)


def choose_cut(
    pipeline_id: str,
    wanted: int | None,
    found: CheckpointRecord | None,
    restores: Sequence[Restore],
    sinks: Collection[str] = (),
) -> Cut:
    """Choose the checkpoint as of which these sinks are read, by operator id; without any, all sinks.

    `found` is the row of the checkpoint that is `wanted`. If none is named, it is the newest one that all sinks have
    committed and that no restore has left behind. `restores` is oldest first.

    Rows of the present branch are never deleted. Those of a checkpoint that a restore has left behind are kept for as
    long as the checkpoint itself, because the restore can be undone until then.

    Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`, `CheckpointInDoubtError`. Performs no I/O.
    """
    if found is None:
        which = "completed checkpoint that its sinks show yet" if wanted is None else f"checkpoint {wanted}"
        raise CheckpointNotFoundError(
            f"Pipeline {pipeline_id!r} has no {which}. Nothing was read. `tidegate checkpoints {pipeline_id}` lists "
            "those it has."
        )
    where = f"The tables of pipeline {pipeline_id!r} cannot be read as of checkpoint {found.checkpoint_id}"
    if found.status not in COMMITTED:
        raise CheckpointNotRetainedError(
            f"{where}: it is {found.status}, and only a completed one has rows in tables. Nothing was read."
        )
    shown = is_shown(found, sinks)
    if found.abandoned_by is not None and not (found.status is Status.COMPLETED and shown):
        raise CheckpointNotRetainedError(
            f"{where}: the pipeline was restored to an earlier checkpoint, and its rows are not kept. Nothing was read."
        )
    if not shown:
        raise CheckpointInDoubtError(
            f"{where} yet: it has completed, but not every table shows it. Nothing was read. Wait for it with "
            f'wait="30 s", or read the latest checkpoint that all tables show. `tidegate doubts {pipeline_id}` shows '
            "the cause."
        )
    return Cut(found, branch_of(found.checkpoint_id, restores))
