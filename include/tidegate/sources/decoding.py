"""Converts the bytes of a source's file to UTF-8: decompressed, without a byte order mark, from the declared encoding.

Nothing is replaced silently. Bytes that are not text of the declared encoding become invalid UTF-8, so that the record
and the place are found when the text is split into records. Runs on executors.
"""

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidegate.protocol.facts.errors import MalformedRowsError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

PIECE = 4 << 20  # bytes read at a time

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_NOT_READ = (".deflate", ".lz4", ".snappy", ".xz", ".zip", ".br", ".lzo")
_MARK = "\udcff"  # the mark of undecodable bytes: no decoder produces it, and it is not valid UTF-8
_MARK_BYTES = _MARK.encode("utf-8", "surrogatepass")
_UTF8_BOM = codecs.BOM_UTF8
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NEEDS_BOM = {
    "utf-16": _UTF16_BOMS,
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


class Broken(NamedTuple):
    """Bytes of the file that are not text, with their place in the file and in the record."""

    content: bytes
    offset: int
    within: int


def canonical(encoding: str) -> str | None:
    """Return Python's name of a text encoding; None if there is no such encoding."""
    try:
        info = codecs.lookup(encoding)
    except LookupError:
        return None
    name = "utf-8" if info.name == "utf-8-sig" else info.name
    return name if getattr(info, "_is_text_encoding", True) else None


def is_splittable(path: str, encoding: str) -> bool:
    """Whether reading may begin in the middle of the file, because line ends are recognised from any byte on."""
    return encoding == "utf-8" and not path.lower().endswith((*_COMPRESSIONS, *_NOT_READ))


def open_file(filesystem: "pafs.FileSystem", path: str, name: str) -> "pa.NativeFile":
    """Open a binary stream of the file's content, decompressed by the ending of its name. `name` is for errors."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix in _NOT_READ:
        raise MalformedRowsError(
            f"{name} ends in {suffix}, a compression that is not supported (only .gz, .bz2 and .zst are). This "
            "checkpoint has no effect. Compress it another way and run again."
        )
    if suffix in _COMPRESSIONS:
        return filesystem.open_input_stream(path, compression=_COMPRESSIONS[suffix])
    return filesystem.open_input_file(path)


class Decoder:
    """Turns pieces of a file into pieces of UTF-8. Positions in its output can be traced back to bytes of the file."""

    def __init__(self, encoding: str, name: str, at_start: bool = True) -> None:
        self.encoding = encoding
        self._name = name
        self._at_start = at_start
        self._fed = 0  # bytes of the file
        self.skipped = 0  # bytes of a byte order mark
        self._given = 0  # bytes of UTF-8
        self._broken: dict[int, tuple[bytes, int]] = {}  # by the position of their mark in the UTF-8
        self._incremental = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(_register(self))

    def pieces(self, stream: "pa.NativeFile") -> Iterator[tuple[bytes, bool]]:
        """Yield pieces of UTF-8, each with whether it is the last. Invalid bytes stay invalid."""
        raw = stream.read(max(PIECE, len(codecs.BOM_UTF32)))  # large enough for a whole byte order mark
        while True:
            following = stream.read(PIECE) if raw else b""
            yield self._feed(raw, final=not following), not following
            if not following:
                return
            raw = following

    def broken(self, record: bytes, at: int) -> Broken | None:
        """Return the first bytes of a record that are not text, NUL included. It begins at position `at` in the
        UTF-8."""
        where, end = record.find(b"\0"), record.find(b"\0") + 1
        try:
            record.decode()
        except UnicodeDecodeError as error:
            if where < 0 or error.start < where:
                where, end = error.start, max(error.end, error.start + 1)
        if where < 0:
            return None
        content, offset = self._broken.get(at + where, (record[where:end], at + where + self.skipped))
        return Broken(content, offset, where)

    def shown(self, record: bytes, at: int) -> str:
        """Return an invalid record as text that can be stored: invalid bytes and NUL become backslash escapes."""
        for mark in reversed(list(re.finditer(_MARK_BYTES, record))):
            if (broken := self._broken.get(at + mark.start())) is not None:
                escaped = "".join(f"\\x{byte:02x}" for byte in broken[0]).encode()
                record = record[: mark.start()] + escaped + record[mark.end() :]
        return record.decode("utf-8", "backslashreplace").replace("\0", "\\x00")

    def _feed(self, raw: bytes, final: bool) -> bytes:
        if self._at_start:
            self._at_start = False
            raw = self._after_mark(raw)
        if self._incremental is None:
            return raw
        # Bytes that the decoder has held back come first in the object of an error.
        self._base = self._fed - len(self._incremental.getstate()[0])
        self._replaced: list[tuple[bytes, int]] = []
        text = self._incremental.decode(raw, final)
        self._fed += len(raw)
        content = text.encode("utf-8", "surrogatepass")
        marks = re.finditer(_MARK_BYTES, content) if self._replaced else ()
        self._broken |= {self._given + m.start(): broken for m, broken in zip(marks, self._replaced, strict=False)}
        if "\0" in text:
            self._find_nul(text)
        self._given += len(content)
        return content

    def _find_nul(self, text: str) -> None:
        given, offset, last = self._given, self._base, 0
        for nul in re.finditer("\0", text):
            before = text[last : nul.start()]
            given += len(before.encode("utf-8", "surrogatepass"))
            offset += len(before.encode(self.encoding, "ignore"))
            self._broken[given] = (b"\0", offset)
            last = nul.start()

    def _after_mark(self, raw: bytes) -> bytes:
        marks: tuple[bytes, ...] = _NEEDS_BOM.get(self.encoding, ())
        if raw and marks and not raw.startswith(marks):
            raise MalformedRowsError(
                f"{self._name} does not begin with a byte order mark, so its byte order in {self.encoding} is unknown. "
                f'This checkpoint has no effect. Declare encoding="{self.encoding}-le" or "{self.encoding}-be", then '
                "run again."
            )
        mark = "" if marks else "\ufeff"
        own = mark.encode(self.encoding) if self.encoding.startswith("utf-") and mark else b""
        if own and raw.startswith(own):
            self.skipped = len(own)
            self._fed = len(own)
            return raw[len(own) :]
        return raw

    def _replace(self, error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        end = max(error.end, error.start + 1)
        self._replaced.append((error.object[error.start : end], self._base + error.start))
        return _MARK, end


def _register(decoder: Decoder) -> str:
    """Register the decoder's error handler. One name is enough, because one file is decoded at a time."""
    codecs.register_error("tidegate-mark", decoder._replace)
    return "tidegate-mark"


def hint(broken: Broken, declared: str) -> str:
    """Suggest another encoding that the file may have."""
    if broken.offset == 0 and broken.content[:1] in (b"\xff", b"\xfe"):
        return 'It begins like UTF-16: declare encoding="utf-16" if it is. '
    if declared == "utf-8":
        return 'If it is another encoding, declare it, such as encoding="windows-1252". '
    return ""
