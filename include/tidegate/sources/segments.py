"""Segments of a `FileSource`, and the files that they refer to."""

from collections.abc import Iterable, Sequence

from tidegate.ports import Segment
from tidegate.sources.listing import FileVersion


def segment_of(split: int, files: Sequence[FileVersion]) -> Segment | None:
    if not files:
        return None
    return Segment(split, {"files": [list(file) for file in files]}, sum(file.size for file in files))


def files_of(segments: Iterable[Segment]) -> list[FileVersion]:
    """Return the files that segments refer to, in reading order within each."""
    return [FileVersion(*file) for segment in segments for file in segment.reference["files"]]
