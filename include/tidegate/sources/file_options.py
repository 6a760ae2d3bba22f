"""What a `FileSource` may say: each argument by itself, and which belong together."""

from collections.abc import Sequence
from typing import Any, Protocol

from tidegate.ports import Sink, SinkInput
from tidegate.protocol.ddl import columns_of
from tidegate.protocol.errors import PipelineDefinitionError
from tidegate.sources.dialect import Declared, canonical_options, check_options
from tidegate.sources.selection import Selection, patterns, require_possible

_CHOICES = {
    "malformed": ("fail", "quarantine"),
    "missing_columns": ("malformed", "null"),
    "extra_columns": ("malformed", "ignore"),
    "parsing": ("strict", "spark"),
}


class Arguments(Declared, Protocol):
    """The arguments of a source."""

    path: str
    file_schema: str
    splits: int
    max_files_per_checkpoint: int | None
    quarantine: Sink | None
    end_marker: str | None
    glob: str
    exclude: Sequence[str]
    parsing: Any
    follow_links: bool


def check_source(source: Arguments) -> None:
    """Raise `PipelineDefinitionError` with the argument that is wrong, and what it may be."""
    check_options(source.path, source.format, source.encoding, source.options)
    if wrong := _in_files(source) or _in_columns(source) or _in_quarantine(source):
        raise PipelineDefinitionError(f"FileSource({source.path!r}): {wrong}.")


def later_options(source: Arguments) -> dict[str, Any]:
    """Those that the first release did not have, for `describe`: a source without them must look as it did."""
    extra = "malformed" if source.format == "csv" else "ignore"
    links = {"follow_links": True} if source.follow_links else {}
    defaults = {"missing_columns": "malformed", "extra_columns": extra, "parsing": "strict"}
    return links | {name: value for name in defaults if (value := getattr(source, name)) != defaults[name]}


def selection_of(source: Arguments) -> Selection:
    """The files that the patterns select. Raises `PipelineDefinitionError` for one that cannot match."""
    parts: dict[str, tuple[str, ...]] = {}
    for name, value in (("glob", [source.glob]), ("exclude", source.exclude)):
        for text in value:
            try:
                parts[name] = (*parts.get(name, ()), *patterns(text))
                if name == "glob":
                    require_possible(parts[name])
            except PipelineDefinitionError as error:
                raise PipelineDefinitionError(
                    f"FileSource({source.path!r}): {name} is {text!r}, but {error}."
                ) from None
    return Selection(parts["glob"], parts.get("exclude", ()), source.end_marker)


def _in_files(source: Arguments) -> str | None:
    limit = source.max_files_per_checkpoint
    if source.file_schema.strip()[-1:] in ("", ","):
        return 'it needs a schema in Spark DDL, such as schema="carrier STRING, dep_delay DOUBLE"'
    if source.splits < 1:
        return f"splits is {source.splits}, but there must be at least one"
    if limit is not None and limit < source.splits:
        return f"max_files_per_checkpoint is {limit}, but each of {source.splits} splits needs at least 1"
    if source.end_marker is not None and (source.end_marker in ("", ".", "..") or "/" in source.end_marker):
        return f"end_marker is {source.end_marker!r}, but must be a file's name, without a directory"
    if isinstance(source.exclude, str):
        return f"exclude is {source.exclude!r}, but must be a list of patterns, such as [{source.exclude!r}]"
    return None


def _in_columns(source: Arguments) -> str | None:
    for argument, choices in _CHOICES.items():
        if (value := getattr(source, argument)) not in choices:
            return f"{argument} is {value!r}, but must be " + " or ".join(f'"{choice}"' for choice in choices)
    names = [name for name, _ in columns_of(source.file_schema)]
    low = [name.lower() for name in names]
    if twice := [name for name in names if low.count(name.lower()) > 1]:
        return f"its schema has {' and '.join(twice)}, and upper and lower case are alike in the names of columns"
    if source.format == "parquet" and source.parsing != "strict":
        return "Parquet files are typed and have no text to parse; remove parsing"
    has_names = source.format != "csv" or canonical_options(source.options).get("header", "true").lower() == "true"
    if not has_names and (source.missing_columns, source.extra_columns) != ("malformed", "malformed"):
        return "nothing says which columns a file without a header has; remove missing_columns and extra_columns"
    return None


def _in_quarantine(source: Arguments) -> str | None:
    if (source.malformed == "quarantine") != (source.quarantine is not None):
        return 'malformed="quarantine" and quarantine=ParquetSink(…) belong together'
    if source.quarantine is not None and source.format == "parquet":
        return "Parquet files are typed and have no malformed rows; remove the quarantine"
    if source.quarantine is not None and source.quarantine.input is not SinkInput.CHANGES:
        return "the quarantine must append: malformed rows have no key"
    return None
