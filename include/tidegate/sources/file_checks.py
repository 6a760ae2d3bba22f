"""What is checked of a file source where it is written: the arguments of its definition, beside options and schema."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from tidegate.ports import Sink, SinkInput
from tidegate.protocol.durations import duration
from tidegate.protocol.errors import PipelineDefinitionError
from tidegate.sources.selection import Selection, patterns, require_possible


class Defined(Protocol):
    """What is checked."""

    path: str
    format: Any
    splits: int
    max_files_per_checkpoint: int | None
    malformed: Any
    quarantine: Sink | None
    end_marker: str | None
    glob: str
    exclude: Sequence[str]
    min_age: str | timedelta | None


def wrong(source: Defined, what: str) -> PipelineDefinitionError:
    """The error to raise."""
    return PipelineDefinitionError(f"FileSource({source.path!r}): {what}.")


def check_limits(source: Defined) -> None:
    """Raises `PipelineDefinitionError`, as all here."""
    if source.splits < 1:
        raise wrong(source, f"splits is {source.splits}, but there must be at least one")
    limit = source.max_files_per_checkpoint
    if limit is not None and limit < source.splits:
        raise wrong(source, f"max_files_per_checkpoint is {limit}, but each of {source.splits} splits needs at least 1")


def check_quarantine(source: Defined) -> None:
    if source.malformed not in ("fail", "quarantine"):
        raise wrong(source, f'malformed is {source.malformed!r}, but must be "fail" or "quarantine"')
    if (source.malformed == "quarantine") != (source.quarantine is not None):
        raise wrong(source, 'malformed="quarantine" and quarantine=ParquetSink(…) belong together')
    if source.quarantine is not None and source.format == "parquet":
        raise wrong(source, "Parquet files are typed and have no malformed rows; remove the quarantine")
    if source.quarantine is not None and source.quarantine.input is not SinkInput.CHANGES:
        raise wrong(source, "the quarantine must append: malformed rows have no key")


def selection_of(source: Defined) -> Selection:
    """Which files the source takes."""
    marker = source.end_marker
    if marker is not None and (marker in ("", ".", "..") or "/" in marker):
        raise wrong(source, f"end_marker is {marker!r}, but must be a file's name, without a directory")
    if isinstance(source.exclude, str):
        raise wrong(
            source, f"exclude is {source.exclude!r}, but must be a list of patterns, such as [{source.exclude!r}]"
        )
    parts: dict[str, tuple[str, ...]] = {"exclude": ()}
    for name, value in (("glob", [source.glob]), ("exclude", source.exclude)):
        for text in value:
            try:
                parts[name] = (*parts.get(name, ()), *patterns(text))
                if name == "glob":
                    require_possible(parts[name])
            except PipelineDefinitionError as error:
                raise wrong(source, f"{name} is {text!r}, but {error}") from None
    return Selection(parts["glob"], parts["exclude"], marker)


def min_age_of(source: Defined) -> int | None:
    """In nanoseconds."""
    if source.min_age is None:
        return None
    try:
        age = duration(source.min_age)
    except PipelineDefinitionError as error:
        raise wrong(source, f"min_age: {error}") from None
    if age <= timedelta():
        raise wrong(source, f"min_age is {source.min_age!r}, but must be longer than nothing")
    return age // timedelta(microseconds=1) * 1000
