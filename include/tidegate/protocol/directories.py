"""Which directories on checkpoint storage nothing that counts will be written to any more."""

import re
from collections.abc import Collection, Iterable

from tidegate.protocol.pipelines import PIPELINE_TRANSITIONS, PipelineRecord
from tidegate.protocol.regions import RegionRecord, last_ended, shared_directory


def choose_closed(
    pipeline_id: str, paths: Iterable[str], in_progress: Collection[int], region: RegionRecord
) -> set[str]:
    """Of the directories in which these files lie, those of checkpoints that have ended and of regions that have.

    What may still come there is written by somebody who was superseded. Performs no I/O.
    """
    closed = set()
    for path in paths:
        match = re.match(rf"{re.escape(pipeline_id)}/(chk-|shared/)(\d+)/", path)
        if match is None:
            continue
        number = int(match[2])
        ended = number not in in_progress if match[1] == "chk-" else number <= last_ended(region)
        if ended:
            closed.add(match[0].rstrip("/"))
    return closed


def choose_unswept(pipeline_id: str, region: RegionRecord) -> set[str]:
    """The directories of all regions that have ended and are still looked after, also where no file is left: what was
    deleted one by one has left its mark. Performs no I/O."""
    return {shared_directory(pipeline_id, attempt) for attempt in range(region.swept + 1, last_ended(region) + 1)}


def closed_for_ever(pipeline: PipelineRecord) -> set[str]:
    """The pipeline's own directory once it was given up for ever: nothing it writes will count. Performs no I/O."""
    return set() if PIPELINE_TRANSITIONS[pipeline.status] else {pipeline.pipeline_id}
