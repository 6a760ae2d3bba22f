"""How bytes become records: line ends, quotes, encodings, broken bytes, parts of files. No Spark."""

import bz2
import codecs
import csv
import gzip
import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st
from text_files import Row, read, records

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.sources import decoding, reading
from tidegate.sources.dialect import text_format
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion
from tidegate.sources.parts import Part, packed
from tidegate.sources.quotes import UNCLOSED, UNDOUBLED


@pytest.fixture
def file(landing: Path) -> Path:
    return landing / "a.csv"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_kind_end_records_and_stay_in_quotes(
    size: int, end: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PIECE", size)
    content = f'a,"x{end}y"{end}{end}b,"""{end}"{end}c,"\r\n\n\r"{end}d,e'
    file.write_bytes(content.encode())
    assert read(file) == [
        (1, f'a,"x{end}y"', None),
        (4, f'b,"""{end}"', None),
        (6, 'c,"\r\n\n\r"', None),
        (10, "d,e", None),
    ]


def test_line_ends_may_be_mixed(file: Path) -> None:
    file.write_bytes(b"a,1\nb,2\r\nc,3\rd,4\n\r\n\n  \n")
    assert read(file) == [(1, "a,1", None), (2, "b,2", None), (3, "c,3", None), (4, "d,4", None)]


def test_a_declared_line_end_is_the_only_one(file: Path) -> None:
    file.write_bytes(b"a,\n1;b,2;")
    assert records(file, options={"lineSep": ";"}) == ["a,\n1", "b,2"]


@pytest.mark.parametrize("size", [1, 5, 4 << 20])
def test_quotes_that_do_not_fit_are_problems_or_literal(size: int, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE", size)
    file.write_bytes(b'1,5" disk\n2,"a\\"b"\n3,"ok"\n4,"open\n5,x\n')
    assert read(file) == [
        (1, '1,5" disk', None),
        (2, '2,"a\\"b"', UNDOUBLED),
        (3, '3,"ok"', None),
        (4, '4,"open', UNCLOSED),
        (5, "5,x", None),
    ]


def test_spark_s_own_dialect_is_two_options(file: Path) -> None:
    file.write_bytes(b'1,"a\\"b"\n2,"open\n')
    own = {"escape": "\\", "multiLine": "false"}
    assert read(file, options=own) == [(1, '1,"a\\"b"', None), (2, '2,"open', UNCLOSED)]
    file.write_bytes(b'1,"a\\"\nb"\n2,"x"\n')
    assert records(file, options={"escape": "\\"}) == ['1,"a\\"\nb"', '2,"x"']


def test_comments_and_blank_lines_are_no_records(file: Path) -> None:
    file.write_bytes(b'#"\na,1\n\n#x\n"b\n#no",2\n')
    assert read(file, options={"comment": "#"}) == [(2, "a,1", None), (5, '"b\n#no",2', None)]


@pytest.mark.parametrize("size", [1, 4 << 20])
def test_in_one_column_an_empty_line_is_an_empty_field(size: int, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE", size)
    file.write_bytes(b"\nx\n\n  \ny\n\n")
    rows = [(2, "x", None), (3, "", None), (4, "  ", None), (5, "y", None), (6, "", None)]
    assert read(file, columns=1) == [(1, "", None), *rows]
    file.write_bytes(b"\n\nC0\n\nx\n")
    assert read(file, columns=1, options={"header": "true"}) == [(4, "", None), (5, "x", None)]


fields = st.text(alphabet='ab,"\n\r\\ü ', max_size=6)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(fields, fields), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n"]),
    size=st.sampled_from([1, 2, 5, 1000]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-16-be", "latin-1", "shift_jis"]),
)
def test_what_a_writer_of_rfc_4180_writes_is_what_is_read(
    rows: list[tuple[str, str]], quoting: int, end: str, size: int, encoding: str
) -> None:
    import tempfile

    if quoting == csv.QUOTE_MINIMAL:  # a writer of Python 3.11 leaves a lone CR unquoted, which nobody can read back
        rows = [tuple(field.replace("\r", "") for field in row) for row in rows]  # type: ignore[misc]
    if encoding == "shift_jis":
        rows = [tuple(field.replace("ü", "表") for field in row) for row in rows]  # type: ignore[misc]  # ends in 0x5C
    expected = []
    text = io.StringIO()
    for row in rows:
        one = io.StringIO()
        csv.writer(one, quoting=quoting, lineterminator=end).writerow(row)
        expected.append(one.getvalue()[: -len(end)])
        text.write(one.getvalue())
    before, decoding.PIECE = decoding.PIECE, size
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "a.csv")
            path.write_bytes(text.getvalue().encode(encoding))
            assert records(path, encoding=encoding) == expected
    finally:
        decoding.PIECE = before


UNDECODABLE: list[tuple[str, bytes, list[Row]]] = [
    (
        "utf-8",
        b"a,1\nr\xe9,2\nb,3\n",
        [(1, "a,1", None), (2, "r\\xe9,2", "0xE9 at byte 5 is not utf-8"), (3, "b,3", None)],
    ),
    ("utf-8", b'a,"\n\xe9"\n', [(1, 'a,"\n\\xe9"', "0xE9 at byte 4 is not utf-8")]),
    ("utf-8", b"a,\xe2\x82", [(1, "a,\\xe2\\x82", "0xE2 0x82 at byte 2 is not utf-8")]),
    ("utf-8", b"a,\xc0\xaf\n", [(1, "a,\\xc0\\xaf", "0xC0 at byte 2 is not utf-8")]),
    ("utf-8", b"a,\xed\xa0\x80\n", [(1, "a,\\xed\\xa0\\x80", "0xED at byte 2 is not utf-8")]),
    ("utf-8", b"a,1\nb,\0\n", [(1, "a,1", None), (2, "b,\\x00", "0x00 at byte 6 is a NUL character")]),
    ("utf-8", codecs.BOM_UTF8 + b"a,\xff\n", [(1, "a,\\xff", "0xFF at byte 5 is not utf-8")]),
    ("utf-8", "a,\ufffd\n".encode(), [(1, "a,\ufffd", None)]),
    ("utf-8", codecs.BOM_UTF8 + b"a,1\n", [(1, "a,1", None)]),
    ("latin-1", b"r\xe9,1\nr\xe8,2\n", [(1, "ré,1", None), (2, "rè,2", None)]),
    ("cp1252", b"a,1\nb,\x81\n", [(1, "a,1", None), (2, "b,\\x81", "0x81 at byte 6 is not cp1252")]),
    ("utf-16", "a,1\nü,2\n".encode("utf-16"), [(1, "a,1", None), (2, "ü,2", None)]),
    ("utf-16-be", codecs.BOM_UTF16_BE + "a,1\n".encode("utf-16-be"), [(1, "a,1", None)]),
    (
        "utf-16-le",
        "a,1\nb,".encode("utf-16-le") + b"\x00\xd8\n\x00c\x00,\x00",
        [(1, "a,1", None), (2, "b,\\x00\\xd8", "0x00 0xD8 at byte 12 is not utf-16-le"), (3, "c,", None)],
    ),
    ("utf-16-le", "a,\0\n".encode("utf-16-le"), [(1, "a,\\x00", "0x00 at byte 4 is a NUL character")]),
]


@pytest.mark.parametrize("size", [1, 4 << 20])
@pytest.mark.parametrize(("encoding", "content", "expected"), UNDECODABLE)
def test_bytes_that_are_no_text_are_found_exactly(
    encoding: str, content: bytes, expected: list[Row], size: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.sinks.parquet import ParquetSink

    monkeypatch.setattr(decoding, "PIECE", size)
    file.write_bytes(content)
    assert read(file, encoding=encoding, malformed="quarantine", quarantine=ParquetSink("q")) == expected


@pytest.mark.parametrize(
    ("encoding", "content", "message"),
    [
        ("utf-8", b"a,1\n\nr\xe9,2\n", r"a.csv has bytes that are not text: 0xE9 at byte 6, line 3, is not utf-8"),
        ("utf-8", b'a,1\n"\n\xe9",2\n', r"0xE9 at byte 6, line 3, is not utf-8.*encoding=.windows-1252.*quarantine"),
        ("utf-8", "a,1\n".encode("utf-16"), r"0xFF at byte 0, line 1, .*begins like UTF-16: declare encoding=.utf-16"),
        ("utf-16", b"a,1\n", r"does not begin with a byte order mark.*utf-16-le.*utf-16-be"),
        ("utf-16-le", "a,1\nb".encode("utf-16-le") + b"\x00", r"0x00 at byte 10, line 2, is not utf-16-le"),
    ],
)
def test_without_a_quarantine_they_are_an_error_that_says_where(
    encoding: str, content: bytes, message: str, file: Path
) -> None:
    file.write_bytes(content)
    with pytest.raises(RuntimeError) as raised:
        read(file, encoding=encoding)
    assert_translated(raised.value, file, message)


def assert_translated(error: BaseException, file: Path, message: str) -> None:
    import re

    from tidegate.protocol.facts.errors import MalformedRowsError
    from tidegate.sources.read_errors import translate_read_error

    found = translate_read_error(error, str(file.parent), [file.name], lambda *_: 0)
    assert isinstance(found, MalformedRowsError)
    assert re.search(message, str(found)), found
    assert translate_read_error(error, str(file.parent), ["other.csv"], lambda *_: 0) is None


def test_a_header_is_compared_without_its_byte_order_mark(file: Path) -> None:
    file.write_bytes(codecs.BOM_UTF8 + b'"C0",c1\r\na,1\r\n')
    assert read(file, options={"header": "true"}) == [(2, "a,1", None)]
    file.write_bytes(b'"C0"||"c1"\na||1\n')
    assert read(file, options={"header": "true", "sep": "||"}) == [(2, "a||1", None)]
    file.write_bytes(b"c0,other\na,1\n")
    with pytest.raises(RuntimeError) as raised:
        read(file, options={"header": "true"})
    assert_translated(raised.value, file, r"columns of .*a.csv are not those .*c0, [?]; the schema has 2: c0, c1")


def test_a_header_that_is_no_text_is_an_error_even_with_a_quarantine(file: Path) -> None:
    from tidegate.sinks.parquet import ParquetSink

    file.write_bytes("c0,c1\n".encode("utf-16"))
    with pytest.raises(RuntimeError) as raised:
        read(file, options={"header": "true"}, malformed="quarantine", quarantine=ParquetSink("q"))
    assert_translated(raised.value, file, "0xFF at byte 0, line 1")


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", None)])
def test_compressed_files_are_checked_like_others(suffix: str, compress: Any, landing: Path) -> None:
    compress = compress or (lambda content: pa.Codec("zstd").compress(content, asbytes=True))
    path = landing / f"a.csv{suffix}"
    path.write_bytes(compress(b"a,1\nr\xe9,2\n"))
    with pytest.raises(RuntimeError) as raised:
        read(path)
    assert_translated(raised.value, path, "0xE9 at byte 5, line 2")
    path.write_bytes(compress(b"a,1\n") + compress(b"b,2\n"))
    assert records(path) == ["a,1", "b,2"]
    path.write_bytes(compress(b"a,1\n" * 5000)[:-6])
    with pytest.raises(RuntimeError) as raised:
        read(path)
    assert_translated(raised.value, path, "cannot be read: .*damaged, incomplete")


def test_a_compression_that_is_not_read_is_refused(landing: Path) -> None:
    path = landing / "a.csv.xz"
    path.write_bytes(b"x")
    with pytest.raises(RuntimeError) as raised:
        read(path)
    assert_translated(raised.value, path, r"ends in .xz, a compression that is not supported")


def test_a_record_without_an_end_is_an_error_before_memory_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE", 100)
    monkeypatch.setattr(reading, "_LONGEST", 1000)
    file.write_bytes(b'a,1\nb,"' + b"x\n" * 2000)
    with pytest.raises(RuntimeError) as raised:
        read(file)
    assert_translated(raised.value, file, "record that begins on line 2 and has not ended")


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["", "a", "bb,1", "ü", "x" * 30]), max_size=20),
    ends=st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=20, max_size=20),
    cuts=st.sets(st.integers(1, 200), max_size=4),
    size=st.sampled_from([1, 3, 4096]),
    mark=st.sampled_from([b"", codecs.BOM_UTF8]),
    columns=st.sampled_from([1, 2]),
)
def test_parts_of_a_file_are_read_exactly_once(
    lines: list[str], ends: list[str], cuts: set[int], size: int, mark: bytes, columns: int
) -> None:
    import tempfile

    if columns == 1:  # where an empty line is a record, CR and LF of two lines would be one end
        ends = ["\n"] * len(ends)
    content = mark + "".join(line + end for line, end in zip(lines, ends, strict=False)).encode()
    bounds: list[int | None] = [0, *sorted(cut for cut in cuts if cut < len(content)), None]
    parts = [Part("a.csv", start or 0, end) for start, end in itertools.pairwise(bounds)]
    before, decoding.PIECE = decoding.PIECE, size
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "a.csv")
            path.write_bytes(content)
            found = records(path, parts=parts, options={"multiLine": "false"}, columns=columns)
            assert found == [line for line in lines if line or columns == 1]
    finally:
        decoding.PIECE = before


def test_an_error_in_a_later_part_says_the_line_of_the_file(file: Path) -> None:
    file.write_bytes(b"a,1\r\nb,2\rc,3\nd,\xe9\n")
    with pytest.raises(RuntimeError) as raised:
        read(file, parts=[Part("a.csv", 7, None)], options={"multiLine": "false"})
    assert_translated(raised.value, file, "0xE9 at byte 15, line 4")


def test_files_are_packed_into_tasks_by_their_size() -> None:
    lines = text_format(FileSource("x", "json", schema="a STRING"), ("a",))
    quoted = text_format(FileSource("x", schema="a STRING"), ("a",))
    many = [FileVersion(f"{n}.json", 1000, 0) for n in range(1000)]
    assert sorted(part.path for parts in packed(many, lines, 4) for part in parts) == sorted(f.path for f in many)
    assert len(packed(many, lines, 4)) == 8
    big = [FileVersion("big.json", 1 << 30, 0)]
    cut = sorted(part for parts in packed(big, lines, 2) for part in parts)
    assert len(cut) == 8
    assert [part.end for part in cut] == [*(part.start for part in cut[1:]), None]
    assert packed(big, quoted, 2) == [(Part("big.json"),)]
    assert packed([FileVersion("big.json.gz", 1 << 30, 0)], lines, 2) == [(Part("big.json.gz"),)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"encoding": "latin-9000"}, "'latin-9000', which is not a known encoding"),
    ({"encoding": "rot13"}, "which is not a known encoding"),
    ({"options": {"encoding": "UTF-16"}}, "the option 'encoding' is an argument of the source: encoding='UTF-16'"),
    ({"options": {"charset": "latin1"}}, "the option 'charset' is an argument of the source"),
    ({"format": "parquet", "encoding": "latin-1"}, "Parquet files have no encoding"),
    ({"options": {"quote": "ab"}}, "the option 'quote' is 'ab', but must be one ASCII character"),
    ({"options": {"lineSep": "é"}}, "'linesep' is 'é', but must be one ASCII character"),
    (
        {"format": "json", "options": {"allowSingleQuotes": "true"}},
        "'allowsinglequotes' is not supported: JSON is read as",
    ),
    ({"format": "json", "options": {"allowComments": "TRUE"}}, "'allowcomments' is not supported: JSON is read as RFC"),
    ({"options": {"multiLine": "yes"}}, "'multiline' is 'yes', but must be true or false"),
]


@for_each(("arguments", "message"), WRONG)
def test_a_wrong_encoding_or_option_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"FileSource.'landing'.*" + message):
        FileSource("landing", **{"schema": "a STRING", **arguments})
