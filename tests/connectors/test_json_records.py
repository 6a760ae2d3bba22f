"""How the text of JSON files becomes records, one value each. No Spark."""

from pathlib import Path

import pytest
from text_files import read, records

from tidegate.sources import decoding, json_texts

JSON: list[tuple[str, list[str]]] = [
    ('{"a":1}\n\n  \n{"a":2}', ['{"a":1}', '{"a":2}']),
    ('[{"a":1}, {"a":[2]}]', ['{"a":1}', '{"a":[2]}']),
    ('{"a":1} {"a":2}', ['{"a":1}', '{"a":2}']),
    ('{"a":1} tail', ['{"a":1}', "tail"]),
    ('{"a":"}{,]["} \t', ['{"a":"}{,]["}']),
    ("{'a':'}\"{'}{}", ["{'a':'}\"{'}", "{}"]),
    ('{"a":1', ['{"a":1']),
    ("[]", []),
    ('[{"a":1}', ['{"a":1}', '[{"a":1}']),
    ('{"a":"\\\\"}', ['{"a":"\\\\"}']),
    ('"x', ['"', "x"]),
]


@pytest.mark.parametrize(("text", "expected"), JSON)
def test_every_json_value_of_a_line_is_a_record(text: str, expected: list[str], landing: Path) -> None:
    path = landing / "a.json"
    path.write_text(text)
    assert list(records(path, format="json")) == expected


def test_a_json_file_may_be_one_value_over_many_lines(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE", 3)
    path = landing / "a.json"
    path.write_text('[\n {"a":\n 1},\n {"a":2}\n]\n')
    assert read(path, format="json", options={"multiLine": "true"}) == [
        (2, '{"a":\n 1}', None),
        (4, '{"a":2}', None),
    ]
    path.write_text('[\n {"a":1},\n')
    assert read(path, format="json", options={"multiLine": "true"})[-1][2] == json_texts.UNCLOSED


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r"\ud800", r"\ud800"),
        (r"\uD83D\uDE00", None),
        (r"\uDE00\uD83D", r"\uDE00"),
        (r"\\ud800", None),
        (r"\\\udc00", r"\udc00"),
        (r"\ud83dx\ude00", r"\ud83d"),
        (r"\ud83d\ud83d\ude00", r"\ud83d"),
        (r"\u00e9\n", None),
    ],
)
def test_half_a_character_is_a_problem(text: str, half: str | None, landing: Path) -> None:
    path = landing / "a.json"
    path.write_text('{"a":"' + text + '"}\n{"a":1}\n')
    ((_, _, problem), (_, _, fine)) = read(path, format="json")
    assert problem == (half and f"{half} is half of a character")
    assert fine is None
