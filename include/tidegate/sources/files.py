"""`FileSource`: a directory into which CSV, JSON or Parquet files arrive, each read exactly once.

Decides which files a checkpoint reads, and notices when a file that was read has changed. `parsing.py` parses rows and
handles malformed ones; `read_errors.py` explains Spark's read errors.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError, SourceChangedError
from tidegate.protocol.facts.records import Pending, Snapshot
from tidegate.protocol.schema.ddl import Schema, ddl_of
from tidegate.settings import absolute
from tidegate.sources import manifests, parsing
from tidegate.sources.beginnings import has_rows
from tidegate.sources.changed import ChangedFiles, read_by_link, require_still_there, shown_time
from tidegate.sources.dialect import check_options, text_format
from tidegate.sources.directory import Directory
from tidegate.sources.file_checks import (
    check_columns,
    check_limits,
    check_quarantine,
    later_options,
    min_age_of,
    selection_of,
    wrong,
)
from tidegate.sources.links import refuse_links
from tidegate.sources.listing import FileVersion, Listing, first_of, in_reading_order, is_old, split_of
from tidegate.sources.parquet_footers import Footers
from tidegate.sources.parquet_reading import reader_of
from tidegate.sources.read_before import ReadBefore
from tidegate.sources.read_errors import translate_read_error
from tidegate.sources.replaced import name_below, read_pieces
from tidegate.sources.selection import check_directories, partition_columns, takes_none

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger("tidegate")


@dataclass(eq=False)
class FileSource:
    """Files below `path`, a directory below the project's home or a URL, in the order in which they were written.

    `schema` is Spark DDL, a pyspark `StructType` or a pydantic model. `options` are Spark's reader options. CSV files
    have a header unless `header` is "false". CSV is RFC 4180 as commonly written, unless `quote`, `escape` or
    `multiLine` say otherwise (docs/pipelines.md). Text that is not in the `encoding` counts as malformed. Each of the
    `splits` has its own position and owns the files whose path hashes to it; their number may change.
    `max_files_per_checkpoint` bounds what one checkpoint reads, shared evenly between the splits. Rows that do not fit
    the schema fail the checkpoint, or with `malformed="quarantine"` go to the sink `quarantine` as (file, record,
    reason). `missing_columns` and `extra_columns` decide what other columns than those of the schema mean. With
    `parsing="spark"` text may be written in any way that Spark understands.

    Files at any depth are read, or with `recursive=False` those directly in `path`; whose name matches `glob` and no
    pattern of `exclude`, by the shell's rules, with braces. `partitions`, such as "day DATE, country STRING", are
    columns behind those of the schema, with what the names of a file's directories say: `day=2013-01-01/country=CA/`.

    A link is passed over if what it leads to is read under its own name. Any other is an error, or with
    `follow_links=True` it is followed, and what it leads to is read once, however many links lead there.

    Files with names of unfinished ones, or of files about others (`names.py`), are ignored until they are renamed, and
    so is everything in directories whose name begins with a dot or underscore. With `min_age`, such as "1 min", a file
    is left alone as long as it was modified that recently: for writers that do not rename. A file must not change once
    it has its final name, but it may be touched, and one without rows may grow.

    With an `end_marker`, such as "_SUCCESS", the source is bounded: once a file of that name lies directly in `path`
    and all others are read, nothing will ever follow, and the source has finished. Write the marker last. While files
    are left to read, a file that was modified after the marker is an error. Once the source has finished, it is not
    listed again, and new files are ignored. Raises `PipelineDefinitionError`.
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
    parsing: Literal["strict", "spark"] = field(default="strict", kw_only=True)

    def __post_init__(self) -> None:
        check_options(self.path, self.format, self.encoding, self.options)
        self.file_schema = ddl_of(self.schema)
        if self.extra_columns is None:
            self.extra_columns = "malformed" if self.format == "csv" else "ignore"
        check_columns(self)
        check_limits(self)
        check_quarantine(self)
        self._selection = selection_of(self)
        self._min_age = min_age_of(self)
        try:
            self._partitions = partition_columns(self.partitions) if self.partitions is not None else ()
        except PipelineDefinitionError as error:
            raise wrong(self, str(error)) from None
        columns = (f"{column.name} {column.type}" for column in self._partitions)
        self.schema = ", ".join((self.file_schema.strip(), *columns))
        # Not a position (those are in the snapshots): only saves the other splits of a checkpoint a listing each.
        self._listing: Listing | None = None
        self._found_by: Mapping[str, str] = {}  # the names of links that led to files
        self._has_looked = False
        self._ended = False
        self._listed_for: set[tuple[int, int]] = set()
        self._pending: dict[int, Pending] = {}  # of each split that was polled
        self._behind: dict[int, bool] = {}
        self._read_before = ReadBefore(lambda file: self._is_selected(file.path))
        self._changed = ChangedFiles(self._has_rows)
        self._footers = Footers()

    @property
    def location(self) -> str:
        """The directory, absolute, or its URL."""
        return absolute(self.path)

    def num_splits(self) -> int:
        return self.splits

    def describe(self) -> dict[str, Any]:
        return {
            "type": "FileSource",
            "path": self.location,
            "format": self.format,
            "schema": self.file_schema,
            "splits": self.splits,
            "max_files_per_checkpoint": self.max_files_per_checkpoint,
            "malformed": self.malformed,
            "encoding": self.encoding,
            "options": dict(self.options),
            "end_marker": self.end_marker,
            "glob": self.glob,
            "exclude": list(self.exclude),
            "recursive": self.recursive,
            "partitions": self.partitions,
            **later_options(self),
        }

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """See `ports.Source`. A file may disappear after it was read, for instance into an archive.

        Raises `SourceChangedError` if a file that was read has another size, modification time and content, or a file
        came after the end marker; `MalformedRowsError` if a file's directories do not give each of `partitions`.
        """
        before = restored or Snapshot()
        read = {handle.path: handle for snapshot in (*context.beside, before) for handle in snapshot.handles}
        is_mine, list_once = self._is_of(split), partial(self._list_once, split, context.checkpoint_id)
        found = self._read_before.compare(list_once, read.values(), context.storage)
        different = [file for file in found.different if is_mine(file.path)]
        judged = self._changed.judge(Directory(self.location), different, read.values(), context.storage)
        unread = [file for file in found.unread if is_mine(file.path)]
        if self._found_by and unread:
            known = read_by_link(unread, self._found_by, read.values(), context.storage)
            judged.touched.extend(known)
            unread = [file for file in unread if file.path not in {row.file.path for row in known}]
        unread = in_reading_order([*unread, *judged.grown])
        old = [file for file in unread if is_old(file, self._min_age, context.now)]
        fresh = first_of(old[: self._limit(split)], context.max_bytes)
        left = len(unread) - len(fresh)
        self._pending[split] = Pending(left, "files", sum(f.size for f in unread) - sum(f.size for f in fresh))
        self._behind[split] = len(fresh) < len(old)
        handles = before.handles
        if fresh or judged.touched:
            check_directories(self.location, (file.path for file in fresh), self._partitions)
            fresh = Directory(self.location).with_checksums(fresh)
            mine = is_mine if self.splits > 1 else None
            handles = manifests.extend(handles, fresh, context, mine, judged.touched)
        new = len({file.path for file in fresh} - {file.path for file in judged.grown})
        position = {"splits": self.splits, "files": self._count_read(split, before, context.storage) + new}
        return _segment(split, fresh), Snapshot(handles, position, finished=self._ended and not left)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether the poll left some, or took as many files as it may, so that more are probably waiting."""
        if self._behind.get(split):
            return True
        limit = self._limit(split)
        return polled is not None and limit is not None and len(polled.reference["files"]) >= limit

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`. Counts the files that the last listing had."""
        return self._pending.get(split)

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        before = restored.handles if restored else ()
        return _segment(split, in_reading_order(manifests.added(before, taken.handles, storage)))

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`."""
        before, after = (snapshot.handles if snapshot else () for snapshot in (restored, taken))
        is_mine = self._is_of(split)
        files = [file for file in manifests.added(before, after, storage) if is_mine(file.path)]
        directory = Directory(self.location)
        again = self._changed.read_again(directory, files, before, storage)
        missing = [file.path for file, now in again if not directory.is_same(file, now)]
        return ReadSince(len(again), sum(file.size for file, _ in again), sorted(missing))

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> dict[str, int]:
        """See `ports.ListingSource`. Its manifest is the one that the checkpoint wrote itself."""
        own = [handle for handle in taken.handles if handle.created_by == checkpoint_id]
        rows = (row for row in manifests.read(own, storage) if row.checkpoint == checkpoint_id and not row.touched)
        return {row.file.path: row.file.size for row in rows}

    def name_of(self, given: str) -> str:
        """See `ports.ReplaceableSource`: a path with the directory, or below it."""
        return name_below(self.location, given)

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> dict[str, ReadPiece]:
        """See `ports.ReplaceableSource`."""
        handles = {handle.path: handle for snapshot in taken for handle in snapshot.handles}
        return read_pieces(Directory(self.location), manifests.find(names, handles.values(), storage).values())

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """See `ports.Source`. Checks every file first: one that changed after listing raises `SourceChangedError`."""
        files = self._with_content(files_of(segments))
        if files:
            require_still_there(Directory(self.location), files)
        return parsing.frame(self, spark, self.location, files, output, self._partitions, self._footers)

    def _with_content(self, files: Sequence[FileVersion]) -> Sequence[FileVersion]:
        """Without empty text files. What one gets after it was listed is read by a later checkpoint."""
        return files if self.format == "parquet" else [file for file in files if file.size]

    def arrow_reader(self, segments: Sequence[Segment]) -> ArrowReader | None:
        """See `ports.ArrowSource`."""
        files = files_of(segments)
        reader = reader_of(self, self.location, files) if self.format == "parquet" else None
        if reader is None:
            return None
        require_still_there(Directory(self.location), files)
        expected = parsing.expected_columns(self, parsing.struct_of(self.file_schema))
        return reader if self._footers.check(self.location, files, expected) else None

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """What to raise instead of a Spark error, if it comes from reading these segments."""
        paths = [file.path for file in files_of(segments)]
        return translate_read_error(error, self.location, paths, self._line_of)

    def _has_rows(self, path: str, content: bytes) -> bool:
        """Whether this is more than a header."""
        return self.format == "parquet" or has_rows(path, content, text_format(self, ()))

    def _line_of(self, path: str, part: int, line: int) -> int:
        """The line number in a file for a line number counted from byte `part` on."""
        rules = text_format(self, ()).rules
        return line + (Directory(self.location).lines_before(path, part, rules) if part else 0)

    def _list_once(self, split: int, checkpoint_id: int) -> Listing:
        """One listing for all splits of a checkpoint. A split that asks again gets a new one."""
        asked = {split_ for id_, split_ in self._listed_for if id_ == checkpoint_id}
        if self._listing is None or not asked or split in asked:
            listing = self._list()
            if self._listing is None or not listing.is_same(self._listing):
                self._listing = listing  # what was found out about an equal one is known
            asked = set()
        self._listed_for = {(checkpoint_id, split_) for split_ in (*asked, split)}
        return self._listing

    def _list(self) -> Listing:
        """Look for the marker first, so that the listing has every file that was written before it."""
        directory = Directory(self.location)
        marker = None if self.end_marker is None else directory.look([self.end_marker])[0]
        listing = directory.files(self.recursive, self.follow_links)
        self._found_by = listing.found_by
        refuse_links(self.location, listing.links, self._is_selected)
        self._say_if_none_is_taken(listing)
        self._ended = marker is not None
        later = [] if marker is None else listing.take((listing.mtimes > marker.mtime_ns).nonzero()[0]).versions()
        late = in_reading_order(file for file in later if self._is_selected(file.path))
        if marker is not None and late:
            times = [shown_time(file.mtime_ns) for file in (late[0], marker)]
            raise SourceChangedError(
                f"{self.location}/{late[0].path} was modified {times[0]}, after the end marker {marker.path} "
                f"({times[1]}), which says that nothing follows ({len(late)} such files). Nothing was read. If the "
                "file belongs to the source, write the marker again, after all files; otherwise move the file away. "
                "Then run again."
            )
        return listing

    def _say_if_none_is_taken(self, listing: Listing) -> None:
        """Once a run. Nearly always one of the first files is taken."""
        if self._has_looked or not len(listing.paths):
            return
        self._has_looked = True
        for paths in (listing.paths[:1000], listing.paths):
            says = takes_none(self.location, paths.to_pylist(), self._found_by, self._selection)
            if says is None:
                return
        log.warning("%s", says)

    def _is_selected(self, path: str) -> bool:
        return self._selection.takes(path, self._found_by.get(path))

    def _limit(self, split: int) -> int | None:
        if self.max_files_per_checkpoint is None:
            return None
        share, rest = divmod(self.max_files_per_checkpoint, self.splits)
        return share + (split < rest)

    def _is_of(self, split: int) -> Callable[[str], bool]:
        return lambda path: split_of(path, self.splits) == split

    def _count_read(self, split: int, restored: Snapshot, storage: CheckpointStorage) -> int:
        """How many files the split has read. After the number of splits has changed, each knows what all have read."""
        position = restored.position or {}
        if position.get("splits") == self.splits:
            return int(position["files"])
        paths = {row.file.path for row in manifests.read(restored.handles, storage)}
        return sum(map(self._is_of(split), paths))


def files_of(segments: Iterable[Segment]) -> list[FileVersion]:
    """The files that segments of a `FileSource` refer to, in reading order within each."""
    return [FileVersion(*file) for segment in segments for file in segment.reference["files"]]


def _segment(split: int, files: Sequence[FileVersion]) -> Segment | None:
    if not files:
        return None
    return Segment(split, {"files": [list(file) for file in files]}, sum(file.size for file in files))
