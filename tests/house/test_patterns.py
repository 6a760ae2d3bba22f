"""Regular expressions match alike on every Python that is supported: none is possessive.

Python 3.11 before 3.11.5 matches a group that is repeated possessively wrongly, and Debian 12 ships 3.11.2.
"""

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("include", "examples", "dags", "plugins")
POSSESSIVE = re.compile(r"[^\\(|](?:[*+?]|\{[\d,]+\})\+")


def possessive(source: str) -> list[str]:
    """The raw string literals with a possessive quantifier."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    literals = [each.string for each in tokens if each.type == tokenize.STRING]
    return [each for each in literals if "r" in each[:2].lower() and POSSESSIVE.search(each)]


def test_no_expression_is_possessive() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    found = {str(path): possessive(path.read_text()) for path in files}
    assert {path: literals for path, literals in found.items() if literals} == {}


def test_a_possessive_one_is_noticed() -> None:
    assert possessive('a = r"(?:x|y)*+"; b = rb"[ab]++"; c = r"z{2,3}+"') == [
        'r"(?:x|y)*+"',
        'rb"[ab]++"',
        'r"z{2,3}+"',
    ]
    assert possessive('a = r"\\++ (?:x|y)*"; b = "c++"; c = "C*+"') == []
