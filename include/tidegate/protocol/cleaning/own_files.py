"""Check that a report names only its own files: only these are recorded, or deleted if the report does not count.

A path names the owner of a file (`paths`). So a file of another pipeline, checkpoint, operator or attempt is recognised
by its path.
"""

from collections.abc import Iterable, Sequence

from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.errors import ForeignPathError
from tidegate.protocol.facts.paths import (
    ByCheckpoint,
    ByRegion,
    attempt_prefix,
    checkpoint_name,
    compaction_prefix,
    directory,
    operator_directory,
    shared_directory,
    write_prefix,
    writer_of,
)
from tidegate.protocol.facts.records import Acknowledgement, CompactedRun, HandleKind, StateHandle
from tidegate.protocol.steps.restored_snapshots import WRITTEN_AS


def require_own_files(
    pipeline_id: str, checkpoint_id: int, region: RegionRecord, acknowledgements: Iterable[Acknowledgement]
) -> None:
    """Check the files of acknowledgements. `region` is the pipeline's newest one, ended or not. Raises
    `ForeignPathError`. Performs no I/O."""
    for acknowledgement in acknowledgements:
        for handle in acknowledgement.snapshot.handles:
            if not _is_own(pipeline_id, checkpoint_id, region, acknowledgement, handle):
                raise ForeignPathError(
                    f"Attempt {acknowledgement.attempt} of subtask {acknowledgement.subtask} of checkpoint "
                    f"{checkpoint_id} of pipeline {pipeline_id} reported {handle.path!r} ({handle.kind}, of checkpoint "
                    f"{handle.created_by}), which is not one of its files. The report was refused: nothing was "
                    "recorded and nothing is deleted. Committed data and the latest completed checkpoint are "
                    "untouched. A connector or region of this pipeline invents paths, or two pipelines run under one "
                    "name: correct that, then take the next checkpoint."
                )


def require_own_runs(pipeline_id: str, checkpoint_id: int, compactions: Sequence[CompactedRun]) -> None:
    """Check runs that were merged in the background of a checkpoint. Raises `ForeignPathError`. Performs no I/O."""
    for run in compactions:
        prefix = compaction_prefix(directory(pipeline_id, checkpoint_id), run.subtask)
        handle = run.handle
        begins = handle.path.startswith(f"{prefix}-") and _is_plain(handle.path.removeprefix(prefix))
        if not begins or (handle.kind, handle.created_by) != (HandleKind.RUN, checkpoint_id):
            raise ForeignPathError(
                f"The merged run {handle.path!r} of {run.subtask} of pipeline {pipeline_id} does not lie where "
                f"checkpoint {checkpoint_id} merges ({prefix}-…). It was not recorded, and nothing is deleted. "
                "State is unchanged."
            )


def _is_own(
    pipeline_id: str, checkpoint_id: int, region: RegionRecord, report: Acknowledgement, handle: StateHandle
) -> bool:
    if not 1 <= handle.created_by <= checkpoint_id or any(part in ("", ".", "..") for part in handle.path.split("/")):
        return False
    if handle.kind is HandleKind.STAGED:
        return _is_own_staged(checkpoint_id, report, handle)
    match writer_of(pipeline_id, handle.path):
        case ByCheckpoint(written_by) if written_by == handle.created_by:
            below = directory(pipeline_id, written_by)
            own = [write_prefix(below, report.subtask, report.attempt)]
        case ByRegion(attempt) if 1 <= attempt <= region.attempt:
            below = shared_directory(pipeline_id, attempt)
            own = [write_prefix(below, report.subtask, attempt), compaction_prefix(below, report.subtask)]
        case _:
            return False
    if handle.kind is HandleKind.CHANNEL:  # rows on their way to this operator, as the upstream operator wrote them
        return True
    carried = handle.created_by < checkpoint_id
    writers = {report.subtask.operator_id} | ({str(handle.details.get(WRITTEN_AS))} if carried else set())
    if handle.path.rpartition("/")[0] not in {operator_directory(below, writer) for writer in writers}:
        return False
    if carried:  # after a rescale, perhaps from a subtask of another index
        return True
    return _begins(handle.path, own)


def _is_own_staged(checkpoint_id: int, report: Acknowledgement, handle: StateHandle) -> bool:
    where, _, name = handle.path.rpartition("/")
    if checkpoint_name(handle.created_by) not in where.split("/"):
        return False
    own = attempt_prefix(report.subtask.subtask_index, report.attempt)
    return handle.created_by < checkpoint_id or _begins(name, [own])


def _begins(name: str, prefixes: Sequence[str]) -> bool:
    return name.startswith(tuple(f"{prefix}-" for prefix in prefixes))


def _is_plain(name: str) -> bool:
    return name != "" and "/" not in name
