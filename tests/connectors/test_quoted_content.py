"""What errors about files quote of them."""

from pathlib import Path
from typing import Any

import pytest

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.files import FileSource

SCHEMA = "id INT, name STRING, amount DOUBLE"
SECRET = "postgres://owner:Hjk7-fkQ2x@db/tidegate?sslmode=require&connect_timeout=10"
FOREIGN: list[tuple[str, str, dict[str, str], str]] = [
    ("csv", SCHEMA, {}, f"{SECRET}\n"),
    ("csv", SCHEMA, {"sep": "|+"}, f"{SECRET}|+{SECRET}\n"),
    ("csv", SCHEMA, {"header": "false"}, f"{SECRET}\n"),
    ("csv", SCHEMA, {"header": "false"}, f'"{SECRET}\n'),
    ("csv", "id INT", {"header": "false"}, f"{SECRET[11:]}\n"),
    ("csv", SCHEMA, {"header": "false"}, f"1,x,{'x' * 40}{SECRET}\n"),
    ("json", SCHEMA, {}, f"{SECRET}\n"),
    ("json", SCHEMA, {}, f"[{SECRET}\n"),
    ("json", SCHEMA, {}, f'{{"password": "{SECRET}", "id": "x"}}\n'),
    ("parquet", SCHEMA, {}, f"{SECRET}\n"),
]


@pytest.mark.parametrize(("kind", "schema", "options", "content"), FOREIGN)
def test_an_error_quotes_nothing_that_the_schema_does_not_expect(
    kind: Any, schema: str, options: dict[str, str], content: str, landing: Path, context: Any, spark: Any
) -> None:
    """Another program's file, whose first line is nobody's business."""
    (landing / "a").write_text(content)
    source = FileSource("landing", kind, schema=schema, options=options)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    with pytest.raises(Exception) as raised:  # noqa: PT011
        source.read(spark, [segment]).collect()
    found = raised.value
    error = found if isinstance(found, MalformedRowsError) else source.explain(found, [segment])
    assert isinstance(error, MalformedRowsError)
    assert f"{landing}/a" in str(error)
    quoted = [part for part in ("Hjk7", "postgres", "owner", "sslmode", "49, 48") if part in str(error)]
    assert quoted == []
