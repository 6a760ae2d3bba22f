"""`FileSource`: a directory into which CSV, JSON or Parquet files arrive, each read exactly once.

Decides which files a checkpoint reads, and detects when a file that was read has changed. `parsing.py` parses rows and
handles malformed ones; `read_errors.py` explains Spark's read errors.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tidegate.ports import (
    ArrowReader,
    CheckpointStorage,
    ReadableStorage,
    ReadPiece,
    ReadSince,
    Segment,
    Sink,
    SourceContext,
)
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError
from tidegate.protocol.facts.records import Pending, Snapshot
from tidegate.settings import absolute
from tidegate.sources import manifests, parsing
from tidegate.sources.beginnings import has_rows
from tidegate.sources.changed import ChangedFiles, read_by_link, require_still_there
from tidegate.sources.dialect import check_options, text_format
from tidegate.sources.directory import Directory
from tidegate.sources.drift import by_names
from tidegate.sources.file_checks import (
    check_columns,
    check_drift,
    check_limits,
    check_place,
    check_quarantine,
    described,
    min_age_of,
    named_files_of,
    require_same_mode,
    selection_of,
    wrong,
)
from tidegate.sources.listing import (
    FileVersion,
    first_of,
    in_reading_order,
    is_old,
    is_settled,
    looking_different,
    split_of,
)
from tidegate.sources.parquet_footers import Footers
from tidegate.sources.parquet_reading import reader_of
from tidegate.sources.pattern_frames import frame_of_all
from tidegate.sources.read_before import ReadBefore
from tidegate.sources.read_errors import translate_read_error
from tidegate.sources.replaced import name_below, read_pieces
from tidegate.sources.segments import files_of, segment_of
from tidegate.sources.selection import check_directories, partition_columns
from tidegate.sources.shared_listing import SharedListing
from tidegate.sources.snapshot_files import Versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger("tidegate")


@dataclass(eq=False)
class FileSource:
    """A directory into which files arrive. Each is read exactly once, in the order in which they were written.

    Names of unfinished files and of files about others (`sources/names.py`) are ignored until they are renamed, and so
    is everything in directories whose name begins with a dot or underscore. A file must not change once it has its
    final name. It may be touched, and one without rows may grow.

    With an `end_marker` the source is bounded: once a file of that name is directly in `path` and all others are
    read, it has finished, is not listed again, and ignores new files. Write the marker last. While files are left to
    read, a file that was modified after the marker is an error.

    Args:
        path: A directory below the project's home, or a URL.
        format: `"csv"`, `"json"` (an object a line) or `"parquet"`. CSV is RFC 4180 as commonly written, unless the
            options `quote`, `escape` or `multiLine` say otherwise (docs/reference/file-source.md).
        schema: The columns: Spark DDL, a pyspark `StructType` or a pydantic model.
        splits: The number of splits. Each has its own position and owns the files whose path hashes to it. It may be
            changed.
        max_files_per_checkpoint: The files that one checkpoint reads at most, shared evenly between the splits.
        malformed: The treatment of rows that do not fit the schema: `"fail"` fails the checkpoint, `"quarantine"`
            writes them to the quarantine.
        quarantine: The sink of malformed rows, with the columns file, record and reason.
        encoding: The encoding of text files. Other bytes are malformed.
        options: Spark's reader options. CSV files have a header unless `header` is "false".
        end_marker: The name of the file that ends the source, such as `"_SUCCESS"`.
        glob: Only files whose name matches this pattern of the shell, with braces.
        exclude: No files whose name matches one of these patterns.
        recursive: Whether files at any depth are read, or only those directly in `path`.
        partitions: Columns behind those of the schema, from the names of directories: `"day DATE, country STRING"` for
            `day=2013-01-01/country=CA/`.
        follow_links: Whether links are followed. Their target is read once, however many links lead there. By default,
            a link is an error unless its target is read under its own name.
        min_age: The least time since a file was modified, such as `"1 min"`, before it is read: for writers that do not
            rename.
        missing_columns: Whether a record without some of the columns is malformed, or has null in them.
        extra_columns: Whether a record with other columns is malformed, or they are ignored. By default `"malformed"`
            for CSV, else `"ignore"`.
        evolve: With `"add"`, a file may lack columns, which are null, or have more, which are ignored, but not both:
            that may be a column with another name. In place of `missing_columns` and `extra_columns`.
        aliases: Other names that a column of the schema has in files: `{"meter_id": ["meterId"]}`.
        schemas: The columns of files whose names match a pattern, `{"meters_v1_*.csv": "meter_id INT"}`, in place of
            `schema`. The first match counts. Columns that a file does not have are null in its rows.
        parsing: With `"spark"`, values may be written in any way that Spark understands.
        mode: With `"snapshot"`, a file is delivered as a whole again and again, and its rows are the changes
            (load-dimension-tables.md). `path` is that file, or a directory of versions in the order of their names.
        key: The columns that identify a row of a snapshot.
        max_deleted: The share of a snapshot's rows that the next one may lack.

    Raises:
        PipelineDefinitionError: If an option is wrong, or does not fit the others.

    Example:
        ```python
        from tidegate import FileSource, ParquetSink, Pipeline

        source = FileSource(
            "landing",
            "json",
            schema="customer STRING, cents BIGINT",
            partitions="day DATE",
            malformed="quarantine",
            quarantine=ParquetSink("tables/malformed"),
        )
        orders = Pipeline("shop").source("orders", source)
        ```
    """

    path: str
    format: Literal["csv", "json", "parquet"] = "csv"
    schema: Schema = field(kw_only=True)
    splits: int = field(default=1, kw_only=True)
    max_files_per_checkpoint: int | None = field(default=None, kw_only=True)
    malformed: Literal["fail", "quarantine"] = field(default="fail", kw_only=True)
    quarantine: Sink | None = field(default=None, kw_only=True)
    encoding: str = field(default="utf-8", kw_only=True)
    options: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    end_marker: str | None = field(default=None, kw_only=True)
    glob: str = field(default="*", kw_only=True)
    exclude: Sequence[str] = field(default=(), kw_only=True)
    recursive: bool = field(default=True, kw_only=True)
    partitions: str | None = field(default=None, kw_only=True)
    follow_links: bool = field(default=False, kw_only=True)
    min_age: str | timedelta | None = field(default=None, kw_only=True)
    missing_columns: Literal["malformed", "null"] = field(default="malformed", kw_only=True)
    extra_columns: Literal["malformed", "ignore"] | None = field(default=None, kw_only=True)
    evolve: Literal["add"] | None = field(default=None, kw_only=True)
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    schemas: Mapping[str, Schema] = field(default_factory=dict, kw_only=True)
    parsing: Literal["strict", "spark"] = field(default="strict", kw_only=True)
    mode: Literal["files", "snapshot"] = field(default="files", kw_only=True)
    key: Sequence[str] = field(default=(), kw_only=True)
    max_deleted: float = field(default=0.5, kw_only=True)

    def __new__(cls, *_: object, mode: str = "files", **__: object) -> "FileSource":
        return super().__new__(SnapshotFiles if mode == "snapshot" else cls)

    def __post_init__(self) -> None:
        check_place(self)
        check_options(self.path, self.format, self.encoding, self.options)
        self.file_schema: str = ddl_of(self.schema)
        check_drift(self)
        if self.extra_columns is None:
            self.extra_columns = "malformed" if self.format == "csv" else "ignore"
        check_columns(self)
        check_limits(self)
        check_quarantine(self)
        self._min_age = min_age_of(self)
        try:
            self._partitions = partition_columns(self.partitions) if self.partitions is not None else ()
        except PipelineDefinitionError as error:
            raise wrong(self, str(error)) from None
        columns = (f"{column.name} {column.type}" for column in self._partitions)
        self.schema = ", ".join((self.file_schema.strip(), *columns))
        self._named = named_files_of(self)
        self._listing = SharedListing(self, selection_of(self))
        self._pending: dict[int, Pending] = {}  # by polled split
        self._behind: dict[int, bool] = {}
        self._read_before = ReadBefore(lambda file: self._listing.is_selected(file.path))
        self._changed = ChangedFiles(self._has_rows)
        self._footers = Footers()

    @property
    def location(self) -> str:
        """The directory, absolute, or its URL."""
        return absolute(self.path)

    def num_splits(self) -> int:
        return self.splits

    def describe(self) -> dict[str, Any]:
        return described(self)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """See `ports.Source`. A file may disappear after it was read, for instance into an archive.

        Raise `SourceChangedError` if a file that was read has another size, modification time and content, or a file
        arrived after the end marker; `MalformedRowsError` if a file's directories do not give each of `partitions`.
        """
        before = restored or Snapshot()
        require_same_mode(self, before)
        read = {handle.path: handle for snapshot in (*context.other_splits, before) for handle in snapshot.handles}
        is_own, list_once = self._is_of(split), partial(self._listing.once, split, context.checkpoint_id)
        found = self._read_before.compare(list_once, read.values(), context.storage)
        different = [file for file in found.different if is_own(file.path)]
        compared = self._changed.compare(
            Directory(self.location), different, read.values(), context.storage, context.now
        )
        unread = [file for file in found.unread if is_own(file.path)]
        if self._listing.found_by and unread:
            known = read_by_link(unread, self._listing.found_by, read.values(), context.storage)
            compared.touched.extend(known)
            unread = [file for file in unread if file.path not in {row.file.path for row in known}]
        unread = in_reading_order([*unread, *compared.grown])
        old = [file for file in unread if is_old(file, self._min_age, context.now)]
        fresh = first_of(old[: self._limit(split)], context.max_bytes)
        left = len(unread) - len(fresh)
        self._pending[split] = Pending(left, "files", sum(f.size for f in unread) - sum(f.size for f in fresh))
        self._behind[split] = len(fresh) < len(old)
        handles = before.handles
        if fresh or compared.touched:
            check_directories(self.location, (file.path for file in fresh), self._partitions)
            fresh = Directory(self.location).with_checksums(fresh)
            only_own = is_own if self.splits > 1 else None
            settling = (file for file in fresh if file.checksum and not is_settled(file, context.now))
            listed = {file.path: file for file in fresh} | {file.path: looking_different(file) for file in settling}
            handles = manifests.extend(handles, list(listed.values()), context, only_own, compared.touched)
        new = len({file.path for file in fresh} - {file.path for file in compared.grown})
        position = {"splits": self.splits, "files": self._count_read(split, before, context.storage) + new}
        return segment_of(split, fresh), Snapshot(handles, position, finished=self._listing.ended and not left)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether the poll left files, or took as many as it may, so that more are probably waiting."""
        if self._behind.get(split):
            return True
        limit = self._limit(split)
        return polled is not None and limit is not None and len(polled.reference["files"]) >= limit

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`. Counts the files of the last listing."""
        return self._pending.get(split)

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        before = restored.handles if restored else ()
        return segment_of(split, in_reading_order(manifests.added(before, taken.handles, storage)))

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`."""
        before, after = (snapshot.handles if snapshot else () for snapshot in (restored, taken))
        is_own = self._is_of(split)
        files = [file for file in manifests.added(before, after, storage) if is_own(file.path)]
        directory = Directory(self.location)
        again = self._changed.read_again(directory, files, before, storage)
        missing = [file.path for file, now in again if not directory.is_same(file, now)]
        return ReadSince(len(again), sum(file.size for file, _ in again), sorted(missing))

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> dict[str, int]:
        """See `ports.ListingSource`. Reads the manifest that the checkpoint itself wrote."""
        own = [handle for handle in taken.handles if handle.created_by == checkpoint_id]
        rows = (row for row in manifests.read(own, storage) if row.checkpoint == checkpoint_id and not row.touched)
        return {row.file.path: row.file.size for row in rows}

    def name_of(self, given: str) -> str:
        """See `ports.ReplaceableSource`. Takes a path with the directory, or below it."""
        return name_below(self.location, given)

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> dict[str, ReadPiece]:
        """See `ports.ReplaceableSource`."""
        handles = {handle.path: handle for snapshot in taken for handle in snapshot.handles}
        return read_pieces(Directory(self.location), manifests.find(names, handles.values(), storage).values())

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """See `ports.Source`. Checks every file first, and raises `SourceChangedError` if one changed after listing."""
        files = self._with_content(files_of(segments))
        if files:
            require_still_there(Directory(self.location), files)
        return frame_of_all(self, spark, self._named, files, output, self._partitions, self._footers)

    def _with_content(self, files: Sequence[FileVersion]) -> Sequence[FileVersion]:
        """Leave out empty text files. Rows that one gets after it was listed are read by a later checkpoint."""
        return files if self.format == "parquet" else [file for file in files if file.size]

    def arrow_reader(self, segments: Sequence[Segment]) -> ArrowReader | None:
        """See `ports.ArrowSource`."""
        files = files_of(segments)
        of_other_columns = any(each is not None for each, _ in by_names(self._named, files))
        reader = reader_of(self, self.location, files) if self.format == "parquet" and not of_other_columns else None
        if reader is None:
            return None
        require_still_there(Directory(self.location), files)
        expected = parsing.expected_columns(self, parsing.struct_of(self.file_schema))
        return reader if self._footers.check(self.location, files, expected) else None

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """Return the error to raise instead of a Spark error, if that comes from reading these segments."""
        paths = [file.path for file in files_of(segments)]
        return translate_read_error(error, self.location, paths, self._line_of)

    def _has_rows(self, path: str, content: bytes) -> bool:
        """Whether a file's content is more than a header."""
        return self.format == "parquet" or has_rows(path, content, text_format(self, ()))

    def _line_of(self, path: str, part: int, line: int) -> int:
        """Return the line number in a file for a line number counted from byte `part` on."""
        rules = text_format(self, ()).rules
        return line + (Directory(self.location).lines_before(path, part, rules) if part else 0)

    def _limit(self, split: int) -> int | None:
        if self.max_files_per_checkpoint is None:
            return None
        share, rest = divmod(self.max_files_per_checkpoint, self.splits)
        return share + (split < rest)

    def _is_of(self, split: int) -> Callable[[str], bool]:
        return lambda path: split_of(path, self.splits) == split

    def _count_read(self, split: int, restored: Snapshot, storage: CheckpointStorage) -> int:
        """Count the files that the split has read. After the number of splits has changed, use the files of all
        splits."""
        position = restored.position or {}
        if position.get("splits") == self.splits:
            return int(position["files"])
        paths = {row.file.path for row in manifests.read(restored.handles, storage)}
        return sum(map(self._is_of(split), paths))


class SnapshotFiles(Versions, FileSource):
    """A `FileSource` of versions, each of which replaces the one before."""
