"""Reads text files inside Spark tasks: input are files, output are rows of (file, part, line, record, text, problem).

A record is the exact text of its file, or has a `problem` that explains why not. Spark parses the `text`, or the record
if that is null. `part` is the byte at which reading began in a file that several Spark tasks share, and `line` counts
from there. Runs on executors, which need only pyarrow and numpy.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources import json_texts
from tidegate.sources.allowed import NOTHING, Aliases, Allowed
from tidegate.sources.arrangement import Arrangement
from tidegate.sources.decoding import PIECE, Decoder, hint, open_file
from tidegate.sources.line_numbers import count_lines, lines_before
from tidegate.sources.links import require_as_listed
from tidegate.sources.parts import Part, parts_of
from tidegate.sources.quotes import Rules
from tidegate.sources.read_errors import AS_BEFORE, carried, unreadable, vanished
from tidegate.sources.text_records import Split, line_ends, split

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

    from tidegate.sources.text_records import Bytes, Flags, Positions

COLUMNS = "file STRING, part BIGINT, line BIGINT, record STRING, text STRING, problem STRING"

_LONGEST = 64 << 20  # bytes of a record
_ROWS = 32_768  # of a batch


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The options by which files of a source are read. `header`: the columns that the first record must name."""

    format: str
    encoding: str
    rules: Rules
    multiline: bool
    quarantine: bool
    header: tuple[str, ...] | None = None
    columns: int = 1
    strip_header: bool = False
    allowed: Allowed = NOTHING
    aliases: Aliases = field(default_factory=dict)
    syntax: json_texts.Syntax = field(default_factory=json_texts.Syntax)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Reads parts of files by `mapInArrow` over a range, where each id is a bin of parts."""

    location: str
    bins: Sequence[tuple[Part, ...]]
    form: TextFormat

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for filesystem, root, part in parts_of(self.location, self.bins, batches):
            yield from self._rows(filesystem, root, part)

    def _rows(self, filesystem: "pafs.FileSystem", root: str, part: Part) -> "Iterator[pa.RecordBatch]":
        from pyarrow import ArrowInvalid

        name = f"{self.location}/{part.path}"
        with carried(name):
            require_as_listed(filesystem, root, part.path, name)
            try:
                stream = open_file(filesystem, f"{root}/{part.path}", name)
            except FileNotFoundError as error:
                raise vanished(name) from error
            except OSError as error:
                raise unreadable(name, error) from error
            with stream:
                require_as_listed(filesystem, root, part.path, name)
                try:
                    reading = _Reading(part, name, self.form, filesystem, f"{root}/{part.path}")
                    yield from reading.rows(stream)
                except (OSError, ArrowInvalid) as error:  # from decompression or storage
                    raise unreadable(name, error) from error


class _Row(NamedTuple):
    line: int
    record: str
    text: str | None
    problem: str | None


class _Reading:
    """Reads one part of one file."""

    def __init__(self, part: Part, name: str, form: TextFormat, filesystem: "pafs.FileSystem", path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._part = part
        self._name = name
        self._form = form
        self._decoder = Decoder(form.encoding, name, at_start=part.start == 0)
        self._line = 1  # the next line, counted within the part
        self._arrangement = Arrangement(form, name)

    def rows(self, stream: "pa.NativeFile") -> "Iterator[pa.RecordBatch]":
        self._begun = self._begin(stream)
        at, rest = self._begun, b""  # `at` is the start of `rest` in the UTF-8
        for piece, final in self._decoder.pieces(stream):
            data = rest + piece
            whole = self._form.format == "json" and self._form.multiline
            if whole and not final:
                rest = data
                continue
            found = self._whole(data) if whole else split(data, self._form.rules, final)
            end = self._end()
            done = end is not None and at + found.consumed >= end
            yield from self._batches(data, _up_to(found, end - at) if done and end is not None else found, at)
            if done:
                return
            at, rest = at + found.consumed, data[found.consumed :]
            self._line += found.consumed_lines
            if len(rest) > _LONGEST:
                raise MalformedRowsError(
                    f"{self._name} has a record that begins on line {self._line} and has not ended after {len(rest)} "
                    f"bytes: a quote is never closed, or the file has no line ends. {AS_BEFORE}Correct the file, or "
                    'read each line as a record with options={"multiLine": "false"}, then run again.'
                )

    def _begin(self, stream: "pa.NativeFile") -> int:
        """Find the start of the part: after the first line end at or after the byte before `start`. The part before
        ends there."""
        start = self._part.start
        if start == 0:
            return 0
        at = start - 1
        stream.seek(at)
        data = b""
        while True:
            piece = stream.read(PIECE)
            data += piece
            _, nexts = line_ends(_array(data), data, self._form.rules.line_end, not piece)
            if len(nexts) or not piece:
                break
        first = at + (int(nexts[0]) if len(nexts) else len(data))
        stream.seek(first)
        self._read_header()
        return first

    def _read_header(self) -> None:
        """Read the header of the whole file."""
        if self._arrangement.awaits_header:
            whole = _Reading(Part(self._part.path), self._name, self._form, self._filesystem, self._path)
            with open_file(self._filesystem, self._path, self._name) as stream:
                next(whole.rows(stream), None)
            self._arrangement = whole._arrangement

    def _end(self) -> int | None:
        """Return the end of the part in the UTF-8, without a byte order mark. The first part has the first record."""
        return None if self._part.end is None else max(self._part.end - self._decoder.skipped, 1)

    def _whole(self, data: bytes) -> Split:
        """Return a file whose values may span many lines as one record, which `json_texts.values` divides."""
        import numpy as np

        one = np.zeros(1 if data.strip() else 0, np.int64)
        return Split(one, one + len(data), one, len(data), 0)

    def _batches(self, data: bytes, found: Split, at: int) -> "Iterator[pa.RecordBatch]":
        import numpy as np

        header = -1
        if self._arrangement.awaits_header:
            begun = np.flatnonzero(found.ends > found.starts)
            header = int(begun[0]) if len(begun) else len(found.starts)
            if len(begun):
                record = data[found.starts[header] : found.ends[header]]
                self._undecodable(record, at + int(found.starts[header]), self._line)
                self._arrangement.take_header(record)
        kept = ~self._blank(data, found.starts, found.ends)
        kept[: header + 1] = False
        indices = np.flatnonzero(kept)
        for low in range(0, len(indices), _ROWS):
            yield self._batch(data, found, indices[low : low + _ROWS], at)

    def _blank(self, data: bytes, starts: "Positions", ends: "Positions") -> "Flags":
        """Return which lines are no records, because they are blank. In CSV of one column, a blank line is a field."""
        import numpy as np

        blank: Flags = starts == ends
        if self._form.format == "csv" and self._arrangement.width == 1:
            return np.zeros(len(starts), bool)
        begun = np.flatnonzero(~blank)
        for index in begun[_array(data)[starts[begun]] <= 32]:
            blank[index] = not data[starts[index] : ends[index]].strip(b" \t\r\n")
        return blank

    def _batch(self, data: bytes, found: Split, indices: "Positions", at: int) -> "pa.RecordBatch":
        import numpy as np
        import pyarrow as pa

        starts, ends, lines = found.starts[indices], found.ends[indices], found.lines[indices] + self._line
        first, last = int(starts[0]), int(ends[-1])
        content = data[first:last]
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        problems = any(index in found.problems for index in indices.tolist()) if found.problems else False
        if offsets[-1] > 2**31 - 1 or problems or b"\0" in content:
            return self._one_by_one(data, found, indices, at)
        compact = _array(content)
        if len(starts) > 1:
            compact = compact[_inside(starts - first, ends - first, len(content))]
        buffers = pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(compact)
        records = pa.StringArray.from_buffers(len(starts), *buffers)
        try:
            records.validate(full=True)
        except pa.ArrowInvalid:  # some bytes are not UTF-8
            return self._one_by_one(data, found, indices, at)
        nulls = pa.nulls(len(starts), pa.string())
        if self._form.format == "csv":
            return self._encoded(lines, records, nulls, nulls)
        values = [json_texts.values(text, self._form.syntax) for text in records.to_pylist()]
        if all(each is None for each in values):
            return self._encoded(lines, records, nulls, nulls)
        return self._of_rows(
            row
            for line, record, several in zip(lines.tolist(), records.to_pylist(), values, strict=True)
            for row in self._of_json(line, record, several)
        )

    def _one_by_one(self, data: bytes, found: Split, indices: "Positions", at: int) -> "pa.RecordBatch":
        rows: list[_Row] = []
        for index in indices.tolist():
            start = int(found.starts[index])
            line = int(found.lines[index]) + self._line
            rows += self._rows_of(data[start : found.ends[index]], at + start, line, found.problems.get(index))
        return self._of_rows(rows)

    def _rows_of(self, record: bytes, at: int, line: int, problem: str | None) -> "list[_Row]":
        if (undecodable := self._undecodable(record, at, line)) is not None:
            return [_Row(line, self._decoder.shown(record, at), None, undecodable)]
        text = record.decode()
        if self._form.format == "csv":
            return [_Row(line, text, None, problem)]
        return self._of_json(line, text, json_texts.values(text, self._form.syntax))

    def _of_json(self, line: int, text: str, values: list[json_texts.Value] | None) -> "list[_Row]":
        if values is None:
            return [_Row(line, text, None, None)]
        rows, last = [], 0
        for value in values:
            line += count_lines(text[last : value.start].encode(), self._form.rules)
            last = value.start
            rows.append(_Row(line, *value[1:]))
        return rows

    def _of_rows(self, rows: "Iterable[_Row]") -> "pa.RecordBatch":
        import numpy as np
        import pyarrow as pa

        lines, *texts = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), (), ())
        return self._encoded(np.array(lines, np.int64), *(pa.array(text, pa.string()) for text in texts))

    def _undecodable(self, record: bytes, at: int, line: int) -> str | None:
        """Return why a record is not text; None if it is. Raise `MalformedRowsError` unless there is a quarantine."""
        broken = self._decoder.broken(record, at)
        if broken is None:
            return None
        line += count_lines(record[: broken.within], self._form.rules)
        shown = " ".join(f"0x{byte:02X}" for byte in broken.content)
        is_nul = record[broken.within : broken.within + 1] == b"\0"
        what = "a NUL character" if is_nul else f"not {self._form.encoding}"
        if self._form.quarantine and not self._arrangement.awaits_header:
            return f"{shown} at byte {broken.offset} is {what}"
        line += self._lines_before()
        raise MalformedRowsError(
            f"{self._name} has bytes that are not text: {shown} at byte {broken.offset}, line {line}, is {what}. "
            f"{AS_BEFORE}{hint(broken, self._form.encoding)}Otherwise correct the file"
            + ("" if self._form.quarantine else ', or let the source quarantine such rows with malformed="quarantine"')
            + ", then run again."
        )

    def _lines_before(self) -> int:
        """Count the lines before this part. Reads all of them, so it is only for an error that ends the reading."""
        return lines_before(self._filesystem, self._path, self._form.rules, self._begun)

    def _encoded(
        self, lines: "Positions", records: "pa.Array", texts: "pa.Array", problems: "pa.Array"
    ) -> "pa.RecordBatch":
        import pyarrow as pa

        count = len(records)
        texts, problems = self._arrangement.of(records, texts, problems)
        columns = [
            pa.repeat(pa.scalar(self._part.path, pa.string()), count),
            pa.repeat(pa.scalar(self._begun, pa.int64()), count),
            pa.array(lines, pa.int64()),
            records,
            texts,
            problems,
        ]
        return pa.RecordBatch.from_arrays(columns, names=["file", "part", "line", "record", "text", "problem"])


def _up_to(found: Split, end: int) -> Split:
    """Return the records that begin before `end`."""
    count = int((found.starts < end).sum())
    return Split(found.starts[:count], found.ends[:count], found.lines[:count], 0, 0, found.problems)


def _array(data: bytes) -> "Bytes":
    import numpy as np

    return np.frombuffer(data, np.uint8)


def _inside(starts: "Positions", ends: "Positions", size: int) -> "Flags":
    """Return which bytes belong to a record."""
    import numpy as np

    change = np.zeros(size + 1, np.int8)
    np.add.at(change, starts, 1)
    np.add.at(change, ends, -1)
    return np.cumsum(change[:-1], dtype=np.int8).view(bool)
