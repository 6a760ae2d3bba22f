"""How the files of a source become rows: the options, and what happens to records that do not fit the schema.

Text files are decoded and divided into records by our own Spark tasks (`reading.py`), because Spark replaces bytes that
it cannot decode and reads a CSV dialect of its own. Spark then parses each record. A record is judged as a whole: Spark
would parse only the columns that a query uses, and whether a record counts as malformed would depend on the query.
`files.py` decides which files are read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tidegate.protocol.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.settings import spark_path
from tidegate.sources.dialect import UNREAD, canonical_options, text_format
from tidegate.sources.json_texts import places_of
from tidegate.sources.links import place_of
from tidegate.sources.listing import FileVersion
from tidegate.sources.parts import packed
from tidegate.sources.read_errors import CLOSE, OPEN
from tidegate.sources.reading import COLUMNS, ReadPlan
from tidegate.sources.selection import PartitionColumn

MALFORMED = "file STRING, record STRING, reason STRING"  # schema of what goes to quarantine

_CORRUPT = "_tidegate_record"
_NO_VALUE = "\0null"  # no record has a NUL
# Every row of exactly the given files, or an error.
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_SHOWN = 400  # characters of a reason in an error
_SHOWN_VALUE = 40  # characters of a value in an error


class Parsed(Protocol):
    """What parsing needs to know about a source."""

    format: Any
    file_schema: str
    malformed: Any
    encoding: str
    options: Mapping[str, str]


def frame(
    source: Parsed,
    spark: Any,
    location: str,
    files: Sequence[FileVersion],
    output: str,
    partitions: Sequence[PartitionColumn] = (),
) -> Any:
    """A lazy DataFrame over exactly these files: `rows` in the source's schema, followed by the `partitions`, or
    `malformed` as `MALFORMED`.

    Raises `PipelineDefinitionError` if the schema is not Spark DDL or has a column of the partitions,
    `MalformedRowsError` for an impossible file name.
    """
    from pyspark.errors import ParseException

    try:
        return _frame(source, spark, location, files, output, partitions)
    except ParseException as error:
        raise PipelineDefinitionError(
            f"The schema of the source of {location!r} is not Spark DDL: {source.file_schema!r}. {error}"
        ) from error


def _frame(
    source: Parsed,
    spark: Any,
    location: str,
    files: Sequence[FileVersion],
    output: str,
    partitions: Sequence[PartitionColumn],
) -> Any:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    schema: Any = StructType.fromDDL(source.file_schema)
    names = {name.lower() for name in schema.names}
    if both := [column.name for column in partitions if column.name.lower() in names]:
        raise PipelineDefinitionError(
            f"The source of {location!r} has {', '.join(both)} both in its schema and in its partitions. What names of "
            "directories say does not stand in the files: leave it out of the schema."
        )
    if output not in ("rows", "malformed") or (output == "malformed" and source.malformed != "quarantine"):
        raise PipelineDefinitionError(f"The source of {location!r} has no output {output!r}.")
    if not files:
        for column in partitions:
            schema = schema.add(column.name, column.type.lower())
        wanted: Any = schema if output == "rows" else StructType.fromDDL(MALFORMED)
        # `createDataFrame` imports pandas. Without the limit the optimiser does not know that the frame is empty.
        return spark.range(1).select([F.lit(None).cast(each.dataType).alias(each.name) for each in wanted]).limit(0)
    if source.format == "parquet":
        reader = spark.read.format("parquet").options(**_STRICT).options(**source.options)
        rows = reader.schema(source.file_schema).load([_spark_path(location, file.path) for file in files])
        if not partitions:
            return rows
        path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
        return rows.select("*", *(column.of(path) for column in partitions))
    form = text_format(source, tuple(schema.names), places_of(schema))
    bins = packed(files, form, int(spark.conf.get("spark.sql.shuffle.partitions")))
    records = spark.range(0, len(bins), 1, len(bins)).mapInArrow(ReadPlan(location, bins, form).run, COLUMNS)
    return _rows(source, schema, records, location, output, partitions)


def _rows(
    source: Parsed, schema: Any, records: Any, location: str, output: str, partitions: Sequence[PartitionColumn]
) -> Any:
    """Parse each record in full, exactly once, before anything else uses it. The result is its row or what is wrong.

    Every step is a generator of one row or none. The optimiser does not look into a generator, repeat it for each use,
    or drop it when a query does not use its columns.
    """
    from pyspark.sql import functions as F

    given = canonical_options(source.options)
    options = {name: value for name, value in given.items() if name not in UNREAD}
    parse = F.from_csv if source.format == "csv" else F.from_json
    if source.format == "csv":
        options = {"quote": '"', "escape": given.get("quote") or '"', **options}
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    whole = f"{source.file_schema.strip()}, {_CORRUPT} STRING"

    def parsed(frame: Any, condition: Any, options: Mapping[str, str], prefix: str) -> Any:
        one = F.inline(F.array(parse(F.when(condition, F.coalesce("text", "record")), whole, dict(options))))
        return frame.select("*", one.alias(*(f"{prefix}{at}" for at in range(len(schema) + 1))))

    def column(prefix: str, at: int) -> Any:
        return F.col(f"{prefix}{at}")

    corrupt = len(schema)
    twice = source.format == "csv" and "nullvalue" not in given
    # An empty line is a null, which Spark's parser has no record for.
    is_record = F.col("problem").isNull() & (F.length("record") > 0)
    records = parsed(records, is_record, {"nullValue": _NO_VALUE, **options} if twice else options, "_a")
    values = [column("_a", at) for at in range(corrupt)]
    bad = column("_a", corrupt).isNotNull()
    if twice:
        # A quoted empty field is an empty string in a STRING column and null in any other: parsed again only there.
        records = parsed(records, bad, options, "_b")
        for at, field in enumerate(schema.fields):
            if field.dataType.typeName() != "string":
                values[at] = F.when(bad, column("_b", at)).otherwise(values[at])
        bad = bad & column("_b", corrupt).isNotNull()
    typed = {field.name: value for field, value in zip(schema.fields, values, strict=True)}
    reason = F.when(bad, _misfit(source, typed, parse, options))
    judged = records.select("*", F.inline(F.array(F.struct(F.coalesce("problem", reason)))).alias("_reason"))
    if output == "malformed":
        judged = judged.where("_reason is not null")
        return judged.selectExpr("file", "record", "_reason as reason")
    row = F.struct(*(value.alias(f"_{at}") for at, value in enumerate(values)))
    kept = F.when(F.col("_reason").isNull(), F.array(row))
    if source.malformed == "fail":
        kept = kept.otherwise(F.raise_error(_facts(location)))
    return judged.select(F.inline(kept).alias(*schema.names), *(column.of(F.col("file")) for column in partitions))


def _misfit(source: Parsed, typed: Mapping[str, Any], parse: Any, options: Mapping[str, str]) -> Any:
    """Why a record does not fit. It is parsed once more with every column as text, to find the columns that failed.

    What goes to an error has the beginning of a value only, and that only where something has shown that the value is
    the column's: a header, its key, or fields as many as the schema has.
    """
    from pyspark.sql import functions as F

    schema = ", ".join(f"{_quoted(column)} STRING" for column in (*typed, _CORRUPT))
    text = parse(F.coalesce("text", "record"), schema, dict(options))
    is_known = source.format == "json" or len(typed) > 1 or text_format(source, tuple(typed)).header is not None

    def shown(value: Any) -> Any:
        if source.malformed == "quarantine":
            return value
        cut = F.concat(F.substring(value, 1, _SHOWN_VALUE), F.lit("…"))
        return F.when(F.length(value) > _SHOWN_VALUE, cut).otherwise(value) if is_known else F.lit("?")

    failed = (
        F.when(typed[c].isNull() & text[c].isNotNull(), F.concat(F.lit(f"{c} = "), shown(text[c]))) for c in typed
    )
    whole = f"not a row of {len(typed)} fields" if source.format == "csv" else "not a JSON object"
    return F.when(text[_CORRUPT].isNotNull() | text.isNull(), F.lit(whole)).otherwise(
        F.concat(F.lit("does not fit the schema: "), F.concat_ws(", ", *failed))
    )


def _facts(location: str) -> Any:
    """What an error says about a malformed record. `read_errors.py` makes it a sentence."""
    from pyspark.sql import functions as F

    facts = F.struct(
        F.lit(location).alias("location"),
        *("file", "part", "line"),
        F.substring("_reason", 1, _SHOWN).alias("reason"),
    )
    return F.concat(F.lit(OPEN), F.hex(F.to_json(facts)), F.lit(CLOSE))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_path(location: str, path: str) -> str:
    if ":" in path.rpartition("/")[2]:
        raise MalformedRowsError(
            f"{location}/{path} has a colon in its name, and Spark cannot open such files (Hadoop's paths forbid it). "
            "This checkpoint has no effect. Rename the file, for instance with a dash, and run again."
        )
    return spark_path(place_of(location, path))
