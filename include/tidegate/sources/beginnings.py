"""Whether the first bytes of a text file hold a row. A file without rows may grow, and is then read."""

from tidegate.sources.decoding import is_splittable
from tidegate.sources.reading import TextFormat
from tidegate.sources.text_records import split


def has_rows(path: str, content: bytes, form: TextFormat) -> bool:
    """Whether the whole content of a file is more than blanks and a header. In doubt it is."""
    if not content:
        return False
    if not is_splittable(path, "utf-8"):  # compressed
        return True
    try:
        text = content.decode(form.encoding)
    except UnicodeDecodeError:
        return True
    if form.format == "json":
        return bool(text.strip())
    return form.header is None or len(split(text.encode(), form.rules, True).starts) > 1
