"""The options of a file source: their allowed values, and their meaning where Spark does not read the file itself.

CSV is RFC 4180 unless `quote`, `escape` or `multiLine` say otherwise; `escape="\\\\"` with `multiLine="false"` is
Spark's own dialect.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.sources.allowed import aliases_of, allowed_of
from tidegate.sources.decoding import canonical
from tidegate.sources.json_names import Names
from tidegate.sources.json_texts import NOT_NUMBERS, Floats, Places, Syntax
from tidegate.sources.quotes import Rules
from tidegate.sources.reading import TextFormat

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource

FORMATS = ("csv", "json", "parquet")

#: Options that are applied when files are divided into records. Spark does not see them.
UNREAD = {"header", "multiline", "comment"}

_OWNED = {
    *("enforceschema", "ignoremissingfiles", "ignorecorruptfiles", "mode", "columnnameofcorruptrecord", "path"),
    *("paths", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath", "inferschema"),
    *("badrecordspath", "columnpruning", "mergeschema", "samplingratio", "__globpaths__"),
}
_NOT_JSON = {
    *("allowcomments", "allowunquotedfieldnames", "allowsinglequotes", "allownumericleadingzeros"),
    *("allowbackslashescapinganycharacter", "allowunquotedcontrolchars"),
}
_ENCODINGS = {"encoding", "charset"}
_ESCAPES = {"\\t": "\t", "\\r": "\r", "\\n": "\n", "\\b": "\b", "\\f": "\f", "\\\\": "\\", "\\u0000": "\0"}
_DEFAULTS = {"csv": {"header": "true", "multiline": "true", "quote": '"', "sep": ","}, "json": {}}


def canonical_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options by lower-case name, because Spark accepts them in any case. `delimiter` becomes `sep`."""
    found = {name.lower(): str(value) for name, value in options.items()}
    if "delimiter" in found:
        found["sep"] = found.pop("delimiter")
    return found


def check_options(path: str, format: str, encoding: str, options: Mapping[str, str]) -> None:
    """Raise `PipelineDefinitionError` for unknown values and for options that would change which rows are read."""

    def wrong(what: str) -> PipelineDefinitionError:
        return PipelineDefinitionError(f"FileSource({path!r}): {what}.")

    if format not in FORMATS:
        raise wrong(f"the format is {format!r}, but must be csv, json or parquet")
    if named := sorted(name for name in options if name.lower() in _ENCODINGS):
        raise wrong(f"the option {named[0]!r} is an argument of the source: encoding={options[named[0]]!r}")
    if owned := sorted(name for name in options if name.lower() in _OWNED):
        raise wrong(
            f"the option {owned[0]!r} cannot be set, because it decides which files or rows are read. Use the source's "
            "own arguments, such as schema, malformed and splits"
        )
    name = canonical(encoding)
    if name is None:
        raise wrong(f'encoding is {encoding!r}, which is not a known encoding; use a name such as "windows-1252"')
    if format == "parquet" and name != "utf-8":
        raise wrong("Parquet files have no encoding; remove the argument")
    given = canonical_options(options)
    if loose := sorted(_NOT_JSON & {name for name, value in given.items() if value.lower() != "false"}):
        raise wrong(f"the option {loose[0]!r} is not supported: JSON is read as RFC 8259 defines it")
    for option in ("quote", "escape", "comment", "linesep") if format == "csv" else ("linesep",):
        value = _plain(given.get(option, ""))
        if len(value) > 1 or not value.isascii():
            raise wrong(f"the option {option!r} is {given[option]!r}, but must be one ASCII character")
    for option in ("header", "multiline"):
        if given.get(option, "true").lower() not in ("true", "false"):
            raise wrong(f"the option {option!r} is {given[option]!r}, but must be true or false")


def text_format(
    source: "FileSource",
    columns: tuple[str, ...],
    places: Places = False,
    names: Names | None = None,
    floats: Floats | None = None,
) -> TextFormat:
    """Return how the files of a source become records. They have these columns, with STRING at these `places`, and
    these `names` and `floats` of JSON. The options must have been checked."""
    given = {**_DEFAULTS[source.format], **canonical_options(source.options)}
    multiline = given.get("multiline", "false").lower() == "true"
    is_csv = source.format == "csv"
    leading, trailing = (given.get(f"ignore{at}whitespace", "").lower() == "true" for at in ("leading", "trailing"))
    rules = Rules(
        separator=_plain(given.get("sep", "")).encode() if is_csv else b"",
        quote=_plain(given["quote"]).encode() if is_csv else b"",
        escape=_plain(given.get("escape", given["quote"])).encode() if is_csv else b"",
        comment=_plain(given.get("comment", "")).encode() if is_csv else b"",
        line_end=_plain(given.get("linesep", "")).encode(),
        multiline=multiline,
        blanks_before=leading,
        blanks_after=leading or trailing,
    )
    return TextFormat(
        format=source.format,
        encoding=canonical(source.encoding) or "utf-8",
        rules=rules,
        multiline=multiline,
        quarantine=source.malformed == "quarantine",
        header=columns if is_csv and given["header"].lower() == "true" else None,
        columns=len(columns),
        strip_header=leading or trailing,
        allowed=allowed_of(source),
        aliases=aliases_of(source),
        syntax=Syntax(places, given.get(NOT_NUMBERS, "false").lower() == "true", multiline, names, floats),
    )


def _plain(value: str) -> str:
    return _ESCAPES.get(value, value)
