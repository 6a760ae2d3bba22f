"""Closed directories on checkpoint storage: no file that is still written to them counts."""

from collections.abc import Collection, Iterable

from tidegate.protocol.continuous.regions import RegionRecord, last_ended
from tidegate.protocol.facts.paths import ByCheckpoint, ByRegion, directory, shared_directory, writer_of
from tidegate.protocol.facts.pipelines import PIPELINE_TRANSITIONS, PipelineRecord


def choose_closed(
    pipeline_id: str, paths: Iterable[str], in_progress: Collection[int], region: RegionRecord
) -> set[str]:
    """Choose the directories of these files that belong to a checkpoint or region that has ended.

    Only a superseded process may still write there. Performs no I/O.
    """
    closed = set()
    for path in paths:
        match writer_of(pipeline_id, path):
            case ByCheckpoint(checkpoint_id) if checkpoint_id not in in_progress:
                closed.add(directory(pipeline_id, checkpoint_id))
            case ByRegion(attempt) if attempt <= last_ended(region):
                closed.add(shared_directory(pipeline_id, attempt))
    return closed


def choose_unswept(pipeline_id: str, region: RegionRecord) -> set[str]:
    """Choose the directories of all ended regions that are not swept yet, even if no file is left. In an object store,
    files deleted one by one leave an object that marks the directory. Performs no I/O."""
    return {shared_directory(pipeline_id, attempt) for attempt in range(region.swept + 1, last_ended(region) + 1)}


def closed_for_ever(pipeline: PipelineRecord) -> set[str]:
    """Return the directory of a cancelled pipeline, in which no further file counts. Performs no I/O."""
    return set() if PIPELINE_TRANSITIONS[pipeline.status] else {pipeline.pipeline_id}
