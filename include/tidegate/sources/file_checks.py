"""Checks of a file source's definition, apart from its options and schema."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.ports import SinkInput
from tidegate.ports.declared_schemas import ddl_of
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.text.durations import duration
from tidegate.protocol.text.masking import holds_secret, masked
from tidegate.sources.drift import NamedFiles, has_names, named_files, problems_of
from tidegate.sources.selection import Selection, patterns, require_possible

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource


_CHOICES = {
    "malformed": ("fail", "quarantine"),
    "missing_columns": ("malformed", "null"),
    "extra_columns": ("malformed", "ignore"),
    "parsing": ("strict", "spark"),
    "mode": ("files", "snapshot"),
}


def wrong(source: "FileSource", what: str) -> PipelineDefinitionError:
    """Return the error to raise."""
    return PipelineDefinitionError(f"FileSource({source.path!r}): {what}.")


def check_place(source: "FileSource") -> None:
    """Check the path. Raise `PipelineDefinitionError`, as all checks here do."""
    if holds_secret(source.path):
        raise PipelineDefinitionError(
            f"FileSource({masked(source.path)!r}): the URL has credentials in it, and the place of a source is stored "
            "and shown. Give it without them: credentials come from the environment."
        )


def check_limits(source: "FileSource") -> None:
    if source.mode == "files" and (source.key or source.max_deleted != 0.5):
        raise wrong(source, 'key and max_deleted are for versions that replace one another; add mode="snapshot"')
    if source.splits < 1:
        raise wrong(source, f"splits is {source.splits}, but there must be at least one")
    limit = source.max_files_per_checkpoint
    if limit is not None and limit < source.splits:
        raise wrong(source, f"max_files_per_checkpoint is {limit}, but each of {source.splits} splits needs at least 1")


def check_columns(source: "FileSource") -> None:
    if source.file_schema.strip()[-1:] in ("", ","):
        raise wrong(source, 'it needs a schema in Spark DDL, such as schema="carrier STRING, dep_delay DOUBLE"')
    for argument, choices in _CHOICES.items():
        if (value := getattr(source, argument)) not in choices:
            raise wrong(source, f"{argument} is {value!r}, but must be " + " or ".join(f'"{each}"' for each in choices))
    names = [name for name, _ in columns_of(source.file_schema)]
    low = [name.lower() for name in names]
    if twice := [name for name in names if low.count(name.lower()) > 1]:
        raise wrong(
            source, f"its schema has {' and '.join(twice)}, and upper and lower case are alike in the names of columns"
        )
    if source.format == "parquet" and source.parsing != "strict":
        raise wrong(source, "Parquet files are typed and have no text to parse; remove parsing")
    if not has_names(source) and (source.missing_columns, source.extra_columns) != ("malformed", "malformed"):
        raise wrong(
            source, "a file without a header does not name its columns; remove missing_columns and extra_columns"
        )


def check_drift(source: "FileSource") -> None:
    """Check evolve and aliases, before defaults are set."""
    if problem := next(problems_of(source), None):
        raise wrong(source, problem)


def named_files_of(source: "FileSource") -> tuple[NamedFiles, ...]:
    try:
        return named_files(source)
    except PipelineDefinitionError as error:
        raise wrong(source, str(error)) from None


def described(source: "FileSource") -> dict[str, Any]:
    """Return the description of the source for the definition."""
    return {
        "type": "FileSource",
        "path": source.location,
        "format": source.format,
        "schema": source.file_schema,
        "splits": source.splits,
        "max_files_per_checkpoint": source.max_files_per_checkpoint,
        "malformed": source.malformed,
        "encoding": source.encoding,
        "options": dict(source.options),
        "end_marker": source.end_marker,
        "glob": source.glob,
        "exclude": list(source.exclude),
        "recursive": source.recursive,
        "partitions": source.partitions,
        **_later_options(source),
    }


def _later_options(source: "FileSource") -> dict[str, Any]:
    """Return the options that the first release did not have. A source without them keeps its former description."""
    extra = "malformed" if source.format == "csv" else "ignore"
    defaults = {
        "follow_links": False,
        "min_age": None,
        "missing_columns": "malformed",
        "extra_columns": extra,
        "evolve": None,
        "parsing": "strict",
    }
    description = {name: getattr(source, name) for name in defaults if getattr(source, name) != defaults[name]}
    description |= {"min_age": str(source.min_age)} if source.min_age is not None else {}
    description |= {"aliases": {name: list(each) for name, each in source.aliases.items()}} if source.aliases else {}
    in_order = [[pattern, ddl_of(schema)] for pattern, schema in source.schemas.items()]
    return description | ({"schemas": in_order} if in_order else {})


def check_quarantine(source: "FileSource") -> None:
    if (source.malformed == "quarantine") != (source.quarantine is not None):
        raise wrong(source, 'malformed="quarantine" and quarantine=ParquetSink(…) belong together')
    if source.quarantine is not None and source.format == "parquet":
        raise wrong(source, "Parquet files are typed and have no malformed rows; remove the quarantine")
    if source.quarantine is not None and source.quarantine.input is not SinkInput.CHANGES:
        raise wrong(source, "the quarantine must append: malformed rows have no key")


def selection_of(source: "FileSource") -> Selection:
    """Return which files the source takes."""
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


def require_same_mode(source: "FileSource", before: Snapshot) -> None:
    """Check that a position of files is not used for versions, and the other way round."""
    was = "files" if "splits" in (before.position or {}) else "snapshot" if before.position else source.mode
    if was != source.mode:
        raise wrong(
            source,
            f"it has read with mode={was!r}, and mode={source.mode!r} cannot go on from there. Nothing was read. Give "
            "the source a new name, and it begins anew",
        )


def min_age_of(source: "FileSource") -> int | None:
    """Return the least age of a file, in nanoseconds."""
    if source.min_age is None:
        return None
    try:
        age = duration(source.min_age)
    except PipelineDefinitionError as error:
        raise wrong(source, f"min_age: {error}") from None
    if age <= timedelta():
        raise wrong(source, f"min_age is {source.min_age!r}, but must be longer than nothing")
    return age // timedelta(microseconds=1) * 1000
