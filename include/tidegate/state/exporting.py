"""Writes the state of a subtask as one complete run somewhere else: what a canonical savepoint holds of it."""

from dataclasses import replace

from tidegate.protocol.canonical import Rewrite
from tidegate.protocol.records import StateHandle
from tidegate.state.opening import read_layout
from tidegate.state.runs import newest_of, run_schema, writing_run
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec


def rewrite_state(
    rewrite: Rewrite, pipeline: str, checkpoint_id: int, storage_url: str, location: str, cache_dir: str | None
) -> StateHandle:
    """Merge all runs of a subtask into one below `location`, in bounded memory and without tombstones.

    The layout is that of the newest run: the definition is not needed. Raises `StateIntegrityError`, `StorageError`.
    """
    where = f"operator {rewrite.subtask.operator_id} of pipeline {pipeline}, checkpoint {checkpoint_id}"
    newest = newest_of(rewrite.runs)
    spec = SubtaskSpec(
        storage_url=storage_url,
        cache_dir=cache_dir,
        operator=rewrite.subtask.operator_id,
        pipeline=pipeline,
        checkpoint_id=checkpoint_id,
        prefix="",
        key_groups=rewrite.key_groups,
        max_parallelism=rewrite.max_parallelism,
        layout=read_layout(storage_url, where, newest),
        runs=rewrite.runs,
    )
    target = replace(spec, storage_url=location, prefix=rewrite.path, runs=())
    schema = run_schema(spec.layout, False)
    with writing_run(target, schema) as writer:
        for table in merged_slices(spec, rewrite.runs, schema, keep_tombstones=False):
            writer.write(table)
    return writer.handle
