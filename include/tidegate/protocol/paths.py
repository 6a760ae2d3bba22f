"""Which files a report may name: only its own are recorded, and only its own are deleted when it does not count.

A path says whose a file is. On checkpoint storage the directories name the pipeline, the checkpoint or the region's
attempt, and the operator; the file's name begins with the subtask and its attempt. Below a sink's root a directory
names the checkpoint, and the file's name begins likewise. So a file of another pipeline, checkpoint, operator or
attempt is recognised by its path.
"""

from collections.abc import Iterable, Sequence

from tidegate.protocol.errors import ForeignPathError
from tidegate.protocol.finalize import directory
from tidegate.protocol.records import Acknowledgement, CompactedRun, HandleKind, StateHandle, SubtaskId
from tidegate.protocol.regions import RegionRecord, shared_directory


def write_prefix(below: str, subtask: SubtaskId, attempt: int) -> str:
    """What the files of a subtask's attempt begin with, below a directory; each execution adds a part of its own."""
    return f"{below}/{subtask.operator_id}/{subtask.subtask_index}-{attempt}"


def compaction_prefix(below: str, subtask: SubtaskId) -> str:
    """The same for a run merged from a subtask's runs."""
    return f"{below}/{subtask.operator_id}/{subtask.subtask_index}-compacted"


def require_own_files(
    pipeline_id: str, checkpoint_id: int, region: RegionRecord, acknowledgements: Iterable[Acknowledgement]
) -> None:
    """`region` is the pipeline's newest one, ended or not. Raises `ForeignPathError`. Performs no I/O."""
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
    """The same for runs that were merged beside a checkpoint. Raises `ForeignPathError`. Performs no I/O."""
    for run in compactions:
        prefix = compaction_prefix(directory(pipeline_id, checkpoint_id), run.subtask)
        handle = run.handle
        begins = handle.path.startswith(f"{prefix}-") and _is_plain(handle.path.removeprefix(prefix))
        if not begins or (handle.kind, handle.created_by) != (HandleKind.RUN, checkpoint_id):
            raise ForeignPathError(
                f"The merged run {handle.path!r} of {run.subtask} of pipeline {pipeline_id} does not lie where "
                f"checkpoint {checkpoint_id} merges ({prefix}-…). It was not recorded, and nothing is deleted. State "
                "is as it was."
            )


def _is_own(
    pipeline_id: str, checkpoint_id: int, region: RegionRecord, report: Acknowledgement, handle: StateHandle
) -> bool:
    if not 1 <= handle.created_by <= checkpoint_id or any(part in ("", ".", "..") for part in handle.path.split("/")):
        return False
    if handle.kind is HandleKind.STAGED:
        return _is_own_staged(checkpoint_id, report, handle)
    below = _writer_of(pipeline_id, region, handle)
    if below is None:
        return False
    where, attempt = below
    if handle.kind is HandleKind.CHANNEL:  # rows on their way to this operator, as the upstream operator wrote them
        return True
    of_operator = f"{where}/{report.subtask.operator_id}/"
    name = handle.path.removeprefix(of_operator)
    if not handle.path.startswith(of_operator) or not _is_plain(name):
        return False
    if handle.created_by < checkpoint_id:  # carried over; after a rescale, perhaps from a subtask of another index
        return True
    own = {f"{report.subtask.subtask_index}-{report.attempt if attempt is None else attempt}-"}
    if attempt is not None:
        own.add(f"{report.subtask.subtask_index}-compacted-")
    return name.startswith(tuple(own))


def _writer_of(pipeline_id: str, region: RegionRecord, handle: StateHandle) -> tuple[str, int | None] | None:
    """The directory of the checkpoint or region's attempt that wrote a file, and the attempt's number (None for a
    checkpoint). None if neither wrote it."""
    own = directory(pipeline_id, handle.created_by)
    if handle.path.startswith(f"{own}/"):
        return own, None
    attempt = handle.path.removeprefix(f"{pipeline_id}/").removeprefix("shared/").partition("/")[0]
    if not attempt.isdecimal() or not 1 <= int(attempt) <= region.attempt:
        return None
    shared = shared_directory(pipeline_id, int(attempt))
    return (shared, int(attempt)) if handle.path.startswith(f"{shared}/") else None


def _is_own_staged(checkpoint_id: int, report: Acknowledgement, handle: StateHandle) -> bool:
    where, _, name = handle.path.rpartition("/")
    if f"chk-{handle.created_by}" not in where.split("/"):
        return False
    return handle.created_by < checkpoint_id or name.startswith(f"{report.subtask.subtask_index}-{report.attempt}-")


def _is_plain(name: str) -> bool:
    return name != "" and "/" not in name
