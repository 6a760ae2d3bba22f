"""Files whose columns differ from the schema's: missing or additional columns, other names of a column, and files that
have columns of their own, selected by their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tidegate.ports.declared_schemas import ddl_of
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.schema.ddl_promises import unkept_promises
from tidegate.protocol.schema.state_schema import can_widen
from tidegate.protocol.schema.table_plan import plain_type
from tidegate.sources.allowed import aliases_of
from tidegate.sources.dialect import canonical_options
from tidegate.sources.listing import FileVersion
from tidegate.sources.parquet_footers import Footers
from tidegate.sources.selection import patterns

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource


@dataclass(frozen=True, slots=True, eq=False)
class NamedFiles:
    """Files whose names match one of the `patterns`, and the source as which they are read. `columns` has their names
    of the schema's columns."""

    patterns: tuple[str, ...]
    source: "FileSource"
    columns: Mapping[str, str]
    footers: Footers = field(default_factory=Footers)

    def takes(self, path: str) -> bool:
        return any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in self.patterns)


def has_names(source: "FileSource") -> bool:
    """Whether files contain the names of their columns."""
    return source.format != "csv" or canonical_options(source.options).get("header", "true").lower() == "true"


def problems_of(source: "FileSource") -> Iterator[str]:
    """Yield the errors in the arguments `evolve` and `aliases`. Performs no I/O."""
    if source.evolve not in (None, "add"):
        yield f'evolve is {source.evolve!r}, but must be "add"'
    elif source.evolve and (source.missing_columns != "malformed" or source.extra_columns is not None):
        yield 'evolve="add" sets both missing_columns and extra_columns; remove those, or evolve'
    columns = {name.lower(): name for name, _ in columns_of(ddl_of(source.schema))}
    owners: dict[str, str] = {}
    for column, names in source.aliases.items():
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
            yield f'aliases has {names!r} for {column!r}, but must have a list of names, such as ["meterId"]'
            return
        if column.lower() not in columns:
            yield f"aliases names the column {column!r}, and the schema has {', '.join(columns.values())}"
        for name in names:
            if name.lower() in columns:
                yield f"aliases has {name!r} for {column!r}, and {name!r} is itself a column of the schema"
            if owners.setdefault(name.lower(), column) != column:
                yield f"aliases has {name!r} both for {owners[name.lower()]!r} and for {column!r}"
    if not has_names(source) and (source.evolve or (source.aliases and not source.schemas)):
        yield "a file without a header does not name its columns; remove evolve and aliases"


def named_files(source: "FileSource") -> tuple[NamedFiles, ...]:
    """Return the entries of `schemas`, in their order. Raise `PipelineDefinitionError`. Performs no I/O."""
    if not isinstance(source.schemas, Mapping):
        raise PipelineDefinitionError(
            f"schemas is {source.schemas!r}, but must have a schema for each pattern of file names, such as "
            '{"meters_v1_*.csv": "meter BIGINT, value INT"}'
        )
    found: list[NamedFiles] = []
    for pattern, schema in source.schemas.items():
        try:
            entry = _named(source, patterns(pattern), ddl_of(schema))
            if (last := found[-1:]) and "*" in last[0].patterns:
                raise PipelineDefinitionError("no file is left for it: a pattern before it matches every name")
        except PipelineDefinitionError as error:
            what = str(error).partition(f"FileSource({source.path!r}): ")
            raise PipelineDefinitionError(f"schemas[{pattern!r}]: {(what[2] or what[0]).rstrip('.')}") from None
        found.append(entry)
    return tuple(found)


def by_names(
    named: Sequence[NamedFiles], files: Sequence[FileVersion]
) -> Iterator[tuple[NamedFiles | None, list[FileVersion]]]:
    """Yield the files of each pattern, where the first match counts, and then the files without one."""
    left = list(files)
    for entry in named:
        if own := [file for file in left if entry.takes(file.path)]:
            yield entry, own
        left = [file for file in left if not entry.takes(file.path)]
    if left:
        yield None, left


def _named(source: "FileSource", names: tuple[str, ...], ddl: str) -> NamedFiles:
    if problem := next(unkept_promises(ddl), None):
        raise PipelineDefinitionError(f"it has a declaration that is not enforced: {problem}")
    aliases = aliases_of(source)
    declared = {name.lower(): (name, type_) for name, type_ in columns_of(source.file_schema)}
    columns: dict[str, str] = {}
    for name, type_ in columns_of(ddl):
        column, wanted = declared.get(aliases.get(name.lower(), name).lower(), (None, ""))
        if column is None:
            continue
        if column in columns:
            raise PipelineDefinitionError(f"{columns[column]} and {name} are both the column {column}")
        if not can_widen(plain_type(type_.lower()), plain_type(wanted.lower())):
            raise PipelineDefinitionError(
                f"column {name} is {type_}, and the schema has {column} {wanted}, which does not hold every value of it"
            )
        columns[column] = name
    _require_no_misspelt(ddl, columns, [name for name, _ in declared.values()])
    others = {
        there: [each for each in (column, *source.aliases.get(column, ())) if each.lower() != there.lower()]
        for column, there in columns.items()
        if column in source.aliases
    }
    same = type(source)(
        source.path,
        source.format,
        schema=ddl,
        malformed=source.malformed,
        quarantine=source.quarantine,
        encoding=source.encoding,
        options=source.options,
        partitions=source.partitions,
        missing_columns=source.missing_columns,
        extra_columns=None if source.evolve else source.extra_columns,
        parsing=source.parsing,
        aliases=others if has_names(source) else {},
        evolve=source.evolve,
    )
    return NamedFiles(names, same, columns)


def _require_no_misspelt(ddl: str, columns: Mapping[str, str], declared: Sequence[str]) -> None:
    """Refuse a column that the schema lacks and that looks like one of its columns. Others are left out of the rows."""
    null = {_plain(name): name for name in declared if name not in columns}
    for name, _ in columns_of(ddl):
        if name not in columns.values() and (close := get_close_matches(_plain(name), null, 1, 0.8)):
            meant = null[close[0]]
            raise PipelineDefinitionError(
                f"column {name} is not in the schema, which has {meant}: if it is the same, declare it with "
                f"aliases={{{meant!r}: [{name!r}]}}"
            )


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
