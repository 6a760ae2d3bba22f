"""docs/how-to/write-a-sink-or-source.md shows the examples as they are, and they are short."""

from pathlib import Path

from cases import for_each

PROJECT = Path(__file__).parents[2]
EXAMPLES = sorted((PROJECT / "examples/own_connectors").glob("*_s*.py"))


@for_each("example", EXAMPLES)
def test_an_example_is_shown_whole_and_short(example: Path) -> None:
    text = example.read_text()
    assert f"```python\n{text}```" in (PROJECT / "docs/how-to/write-a-sink-or-source.md").read_text(), example.name
    assert len(text.splitlines()) <= 60, example.name
