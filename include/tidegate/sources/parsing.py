"""How the files of a source become rows: the options given to Spark, and what happens to rows that do not fit.

A row is judged as a whole. Spark would parse only the columns that a query uses and skip rows that a pushed-down
filter drops, so whether a row counts as malformed would depend on the query: `_judged` prevents both. Which files are
read is decided in `files.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tidegate.locations import spark_path
from tidegate.protocol.errors import MalformedRowsError, PipelineDefinitionError

FORMATS = ("csv", "json", "parquet")
MALFORMED = "file STRING, record STRING, reason STRING"  # schema of what goes to quarantine

_RECORD = "_tidegate_record"
_DEFAULTS = {"csv": {"header": "true"}, "json": {}, "parquet": {}}
# Every row of exactly the given files, or an error.
_STRICT = {"enforceSchema": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_OWNED = {
    *(
        "enforceschema",
        "ignoremissingfiles",
        "ignorecorruptfiles",
        "mode",
        "columnnameofcorruptrecord",
        "path",
        "paths",
    ),
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath", "inferschema"),
    *("badrecordspath", "columnpruning", "mergeschema", "samplingratio", "__globpaths__"),
}


class Parsed(Protocol):
    """What parsing needs to know of a source."""

    format: Any
    schema: str
    malformed: Any
    options: Mapping[str, str]


def check_options(path: str, format: str, options: Mapping[str, str]) -> None:
    """Raise `PipelineDefinitionError` for an unknown format and for options that would change which rows are read."""
    if format not in FORMATS:
        raise PipelineDefinitionError(
            f"FileSource({path!r}): the format is {format!r}, but must be csv, json or parquet."
        )
    if owned := sorted(name for name in options if name.lower() in _OWNED):
        raise PipelineDefinitionError(
            f"FileSource({path!r}): the option {owned[0]!r} is not the user's to set, because it decides which files "
            "or rows are read. Use the source's own arguments, such as schema, malformed and splits."
        )


def frame(source: Parsed, spark: Any, location: str, paths: Sequence[str], output: str) -> Any:
    """A lazy DataFrame over exactly these files: `rows` in the source's schema, or `malformed` as `MALFORMED`.

    Raises `PipelineDefinitionError` where the schema is not Spark DDL, `MalformedRowsError` for an impossible file name.
    """
    from pyspark.errors import ParseException

    try:
        return _frame(source, spark, location, paths, output)
    except ParseException as error:
        raise PipelineDefinitionError(
            f"The schema of the source of {location!r} is not Spark DDL: {source.schema!r}. {error}"
        ) from error


def _frame(source: Parsed, spark: Any, location: str, paths: Sequence[str], output: str) -> Any:
    if output not in ("rows", "malformed") or (output == "malformed" and source.malformed != "quarantine"):
        raise PipelineDefinitionError(f"The source of {location!r} has no output {output!r}.")
    if not paths:
        # Without the limit the optimiser does not know that it is empty, and plans jobs for it.
        return spark.createDataFrame([], source.schema if output == "rows" else MALFORMED).limit(0)
    reader = spark.read.format(source.format).options(**_DEFAULTS[source.format], **_STRICT).options(**source.options)
    targets = [_spark_path(location, path) for path in paths]
    if source.format == "parquet":
        return reader.schema(source.schema).load(targets)
    if source.malformed == "fail":
        return _judged(reader.option("mode", "FAILFAST").schema(source.schema).load(targets))
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _RECORD)
    parsed = reader.schema(f"{source.schema.strip().rstrip(',')}, {_RECORD} STRING").load(targets)
    if output == "rows":
        return _judged(parsed).where(f"{_RECORD} is null").drop(_RECORD)
    return _malformed(source, location, _judged(parsed).where(f"{_RECORD} is not null"))


def _judged(parsed: Any) -> Any:
    """The same rows, each parsed in full before anything else sees it.

    The condition always holds. It uses every column, so none is pruned; it is not deterministic for the optimiser,
    so no filter moves below it; and it costs some additions a row.
    """
    nulls = " + ".join(f"cast(isnull({_quoted(column)}) as int)" for column in parsed.columns)
    return parsed.where(f"monotonically_increasing_id() + {nulls} >= 0")


def _malformed(source: Parsed, location: str, parsed: Any) -> Any:
    from pyspark.sql import functions as F

    # Spark percent-encodes the path, but leaves a plus sign as it is, which url_decode would make a space.
    file = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    prefix = location.partition("://")[2] or location
    below = F.substring(file, F.instr(file, f"{prefix}/") + len(prefix) + 1, F.length(file))
    return parsed.select(below.alias("file"), F.col(_RECORD).alias("record"), _reason(source, parsed).alias("reason"))


def _reason(source: Parsed, parsed: Any) -> Any:
    """Why a record does not fit: parsed once more with every column as text, so that those that failed are known."""
    from pyspark.sql import functions as F

    columns = [column for column in parsed.columns if column != _RECORD]
    schema = ", ".join(f"{_quoted(column)} STRING" for column in (*columns, _RECORD))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _RECORD, **source.options}
    options = {name: value for name, value in options.items() if name.lower() not in ("header", "multiline", "linesep")}
    parse = F.from_csv if source.format == "csv" else F.from_json
    text = parse(F.col(_RECORD), schema, options)
    failed = (
        F.when(F.col(_quoted(c)).isNull() & text[c].isNotNull(), F.concat(F.lit(f"{c} = "), text[c])) for c in columns
    )
    whole = f"not a row of {len(columns)} fields" if source.format == "csv" else "not a JSON object"
    return F.when(text[_RECORD].isNotNull() | text.isNull(), F.lit(whole)).otherwise(
        F.concat(F.lit("does not fit the schema: "), F.concat_ws(", ", *failed))
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_path(location: str, path: str) -> str:
    if ":" in path.rpartition("/")[2]:
        raise MalformedRowsError(
            f"{location}/{path} has a colon in its name, and Spark cannot open such files (Hadoop's paths forbid it). "
            "Nothing of this checkpoint counts. Rename the file, for instance with a dash, and run again."
        )
    return spark_path(f"{location}/{path}")
