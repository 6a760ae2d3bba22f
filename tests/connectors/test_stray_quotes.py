"""Where quoted fields end, in every dialect: stray quotes are problems, and never swallow what follows. No Spark."""

from dataclasses import replace
from pathlib import Path

import pytest
from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st
from text_files import Row, read

from tidegate.sources import decoding
from tidegate.sources.quotes import UNCLOSED, UNDOUBLED, UNESCAPED, Rules, fields
from tidegate.sources.text_records import Split, split

STRAY: list[tuple[dict[str, str], bytes, list[Row]]] = [
    ({}, b'a,b\n1,x\n2,y"z\n3,w\n', [(1, "a,b", None), (2, "1,x", None), (3, '2,y"z', None), (4, "3,w", None)]),
    ({}, b'1,"x,2\n3,"ok",4\n5,y\n', [(1, '1,"x,2\n3,"ok",4', UNDOUBLED), (3, "5,y", None)]),
    ({"escape": "\\"}, b'1,"x,2\n3,"ok",4\n5,y\n', [(1, '1,"x,2\n3,"ok",4', UNESCAPED), (3, "5,y", None)]),
    (
        {"escape": "\\"},
        b'1,"a""b"\n2,"\\\\"\n3,""',
        [(1, '1,"a""b"', UNESCAPED), (2, '2,"\\\\"', None), (3, '3,""', None)],
    ),
    ({"escape": ""}, b'1,"a\\"\n2,"a""b"\n', [(1, '1,"a\\"', None), (2, '2,"a""b"', UNESCAPED)]),
    ({"multiLine": "false"}, b'1,"x,2\n3,"ok",4\n', [(1, '1,"x,2', UNCLOSED), (2, '3,"ok",4', None)]),
    (
        {"multiLine": "false"},
        b'1,"x"y\n2,"\n3,"a""b"\n',
        [(1, '1,"x"y', UNDOUBLED), (2, '2,"', UNCLOSED), (3, '3,"a""b"', None)],
    ),
    ({"multiLine": "false", "escape": "\\"}, b'1,2,"x\n3,"y\\"\n', [(1, '1,2,"x', UNCLOSED), (2, '3,"y\\"', UNCLOSED)]),
    ({"sep": "||"}, b'1||"x"y||2\n3|||"x"\n', [(1, '1||"x"y||2', UNDOUBLED), (2, '3|||"x"', None)]),
    (
        {"ignoreTrailingWhiteSpace": "true"},
        b'1,"x" ,"y"z\n2,"x"\t\n',
        [(1, '1,"x" ,"y"z', UNDOUBLED), (2, '2,"x"\t', None)],
    ),
    (
        {"ignoreLeadingWhiteSpace": "true", "sep": "\t"},
        b'1\t "x"\n2\t\t"y"z\n',
        [(1, '1\t "x"', None), (2, '2\t\t"y"z', UNDOUBLED)],
    ),
]


@pytest.mark.parametrize("size", [1, 4, 4 << 20])
@pytest.mark.parametrize(("options", "content", "expected"), STRAY)
def test_stray_quotes_are_found_in_every_dialect(
    options: dict[str, str],
    content: bytes,
    expected: list[Row],
    size: int,
    landing: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "PIECE", size)
    file = landing / "a.csv"
    file.write_bytes(content)
    assert read(file, options=dict(options)) == expected


@settings(max_examples=400, deadline=None)
@given(
    text=st.text(alphabet='a,"\\\n\r |', max_size=24),
    rules=st.builds(
        Rules,
        separator=st.sampled_from([b",", b"|", b"||"]),
        quote=st.sampled_from([b'"', b'"', b""]),
        escape=st.sampled_from([b'"', b"\\", b""]),
        comment=st.sampled_from([b"", b"a"]),
        line_end=st.sampled_from([b"", b"", b"\n"]),
        blanks_before=st.booleans(),
        multiline=st.booleans(),
    ),
    cut=st.integers(0, 24),
)
def test_records_are_those_of_a_reader_that_goes_from_character_to_character(text: str, rules: Rules, cut: int) -> None:
    rules = replace(rules, blanks_after=rules.blanks_before)
    data = text.encode()
    assert found(data, split(data, rules, final=True)) == plainly(text, rules)
    first = split(data[:cut], rules, final=False)
    rest = data[first.consumed :]
    assert [*found(data, first), *found(rest, split(rest, rules, final=True))] == plainly(text, rules)


def found(data: bytes, those: Split) -> list[tuple[str, bool]]:
    bounds = zip(those.starts.tolist(), those.ends.tolist(), strict=True)
    return [(data[start:end].decode(), at in those.problems) for at, (start, end) in enumerate(bounds)]


def plainly(text: str, rules: Rules) -> list[tuple[str, bool]]:
    """The records of a text, each with whether it has a problem, found one character after the other."""
    records = []
    while text:
        end = line = _line(text, rules)
        if rules.comment and text.startswith(rules.comment.decode()):
            text = text[_next(text, end, rules) :]
            continue
        problem = False
        if rules.quote:
            end, problem = _record(text, rules)
            if end is None or (not rules.multiline and end > line):
                end, problem = line, True
        records.append((text[:end], problem))
        text = text[_next(text, end, rules) :]
    return records


def _line(text: str, rules: Rules) -> int:
    ends = rules.line_end.decode() or "\r\n"
    return next((at for at, sign in enumerate(text) if sign in ends), len(text))


def _next(text: str, end: int, rules: Rules) -> int:
    return end + (2 if not rules.line_end and text[end : end + 2] == "\r\n" else 1)


def _record(text: str, rules: Rules) -> tuple[int | None, bool]:
    separator, quote, escape = rules.separator.decode(), rules.quote.decode(), rules.escape.decode()
    blanks = " " if rules.blanks_before else ""
    at, problem = 0, False
    while True:
        begin = at
        while text[begin : begin + 1] in [*blanks]:
            begin += 1
        if text.startswith(quote, begin):
            at = begin + 1
            while not (text.startswith(quote, at) and not (rules.doubles and text.startswith(quote * 2, at))):
                if at >= len(text):
                    return None, True
                at += 2 if text.startswith(escape or "\0", at) else 1
            at += 1
            while text[at : at + 1] in [*blanks]:
                at += 1
            problem |= not (at >= len(text) or text.startswith(separator, at) or _line(text[at:], rules) == 0)
        while not text.startswith(separator, at):
            if at >= len(text) or _line(text[at:], rules) == 0:
                return at, problem
            at += 1
        at += len(separator)


@for_each(
    ("record", "rules", "expected"),
    [
        (b'"a"||"b||c"||d', Rules(b"||", b'"', b'"'), [b"a", b"b||c", b"d"]),
        (b'"a""b",,c"d', Rules(b",", b'"', b'"'), [b'a"b', b"", b'c"d']),
        (b'"a\\"b","\\\\",', Rules(b",", b'"', b"\\"), [b'a"b', b"\\", b""]),
        (b' "a", b', Rules(b",", b'"', b'"', blanks_before=True), [b"a", b" b"]),
        (b'"a","b"', Rules(b","), [b'"a"', b'"b"']),
    ],
)
def test_the_fields_of_a_header(record: bytes, rules: Rules, expected: list[bytes]) -> None:
    assert list(fields(record, rules)) == expected
