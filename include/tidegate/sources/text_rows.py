"""Turns records of text into rows. Spark parses each record, and records that do not fit the schema are malformed.

A record is validated as a whole. Spark would parse only the columns that a query uses, and whether a record counts as
malformed would depend on the query. Every step is a generator of one row or none, because the optimiser does not
analyse a generator, repeat it for each use, or drop it when a query does not use its columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tidegate.ports.declared_schemas import ddl_of
from tidegate.sources.allowed import allowed_of
from tidegate.sources.dialect import UNREAD, canonical_options, text_format
from tidegate.sources.read_errors import CLOSE, OPEN
from tidegate.sources.selection import PartitionColumn
from tidegate.sources.strict_values import all_fit, as_text, has_checked, is_checked, value_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from tidegate.sources.files import FileSource

_CORRUPT = "_tidegate_record"
_NO_VALUE = "\0null"  # no record has a NUL
_SHOWN = 400  # characters of a reason in an error
_SHOWN_VALUE = 40  # characters of a value in an error


def text_rows(
    source: "FileSource",
    schema: "StructType",
    records: "DataFrame",
    location: str,
    output: str,
    partitions: Sequence[PartitionColumn],
) -> "DataFrame":
    """Turn records, as `reading.COLUMNS`, into rows of the schema and the `partitions`, or into `malformed` ones as
    (file, record, reason)."""
    steps = _steps(source, schema, records.sparkSession, location, output, partitions)
    for added in steps.added:
        records = records.select("*", added)
    return (records if steps.kept is None else records.where(steps.kept)).select(*steps.shown)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The columns added to records, one after the other; the condition of records that are kept; the columns shown."""

    added: "tuple[Column, ...]"
    kept: str | None
    shown: "tuple[Column, ...]"


#: Steps depend on the definition alone, and making them takes longer than reading a small file.
_KNOWN: "WeakKeyDictionary[SparkSession, WeakKeyDictionary[FileSource, dict[tuple[str, ...], _Steps]]]" = (
    WeakKeyDictionary()
)


def _steps(
    source: "FileSource",
    schema: "StructType",
    session: "SparkSession",
    location: str,
    output: str,
    partitions: Sequence[PartitionColumn],
) -> _Steps:
    known = _KNOWN.setdefault(session, WeakKeyDictionary()).setdefault(source, {})
    key = (schema.json(), location, output)
    if key not in known:
        known[key] = _made(source, schema, location, output, partitions)
    return known[key]


def _made(
    source: "FileSource", schema: "StructType", location: str, output: str, partitions: Sequence[PartitionColumn]
) -> _Steps:
    from pyspark.sql import functions as F

    parsing = _Parsing(source, schema)
    values, bad = parsing.parsed()
    reason = F.coalesce("problem", F.when(bad, parsing.misfit(values)), *parsing.misnamed(values))
    added = *parsing.added, F.inline(F.array(F.struct(reason))).alias("_reason")
    if output == "malformed":
        shown = F.col("file"), F.col("record"), F.col("_reason").alias("reason")
        return _Steps(added, "_reason is not null", shown)
    row = F.struct(*(value.alias(f"_{at}") for at, value in enumerate(values)))
    kept = F.when(F.col("_reason").isNull(), F.array(row))
    if source.malformed == "fail":
        kept = kept.otherwise(F.raise_error(_facts(location)))
    shown_rows = F.inline(kept).alias(*schema.names), *(column.of(F.col("file")) for column in partitions)
    return _Steps(added, None, shown_rows)


class _Parsing:
    """The steps from records to values, for one source. Each column in `added` may use those before."""

    def __init__(self, source: "FileSource", schema: "StructType") -> None:
        from pyspark.sql import functions as F

        self._source = source
        self._schema = schema
        self._is_csv = source.format == "csv"
        self._parse = F.from_csv if self._is_csv else F.from_json
        self._given = given = canonical_options(source.options)
        quoting = {"quote": '"', "escape": given.get("quote") or '"'} if self._is_csv else {}
        options = {name: value for name, value in given.items() if name not in UNREAD}
        self._options = quoting | options | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        strict = source.parsing == "strict"
        self._converted = [at for at, field in enumerate(schema) if strict and self._is_converted(field.dataType)]
        self._compared = [
            at
            for at, field in enumerate(schema)
            if strict and at not in self._converted and has_checked(field.dataType, source.format, given)
        ]
        self._record = F.coalesce("text", "record")
        self.added: list[Column] = []

    def _is_converted(self, type_: "DataType") -> bool:
        """Whether Spark parses a column as STRING first. A decimal of JSON would lose digits by that, and a text would
        pass for a byte."""
        number_of_json = type_.typeName() in ("decimal", "byte") and not self._is_csv
        return is_checked(type_, self._source.format, self._given) and not number_of_json

    def parsed(self) -> "tuple[list[Column], Column]":
        """Return the values of each record, and whether it is malformed."""
        from pyspark.sql import functions as F

        corrupt = len(self._schema)
        apart = self._is_csv and "nullvalue" not in self._given
        # Spark's parser has no record for a null, so an empty record is one.
        is_record = F.col("problem").isNull() & (F.length(self._record) > 0)
        self._add_parsed(is_record, "_a", {"nullValue": _NO_VALUE} if apart else {})
        values = [F.col(f"_a{at}") for at in range(corrupt)]
        bad = F.col(f"_a{corrupt}").isNotNull()
        others = [at for at, field in enumerate(self._schema) if field.dataType.typeName() != "string"]
        others = [at for at in others if at not in self._converted]
        if apart:
            # A quoted empty field is an empty string in a STRING column and null in any other.
            for at in self._converted:
                values[at] = F.when(values[at] != "", values[at])
            if others:  # Spark converts these, so they are parsed again where one of them failed
                self._add_parsed(bad, "_b", {})
                for at in others:
                    values[at] = F.when(bad, F.col(f"_b{at}")).otherwise(values[at])
                bad = bad & F.col(f"_b{corrupt}").isNotNull()
        values, unfit = self._checked(values)
        return values, bad | unfit

    def _add_parsed(self, condition: "Column", prefix: str, options: Mapping[str, str]) -> None:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [
            StructField(field.name, StringType()) if at in self._converted else field
            for at, field in enumerate(self._schema)
        ]
        whole = ddl_of(StructType([*fields, StructField(_CORRUPT, StringType())]))
        one = F.inline(F.array(self._parse(F.when(condition, self._record), whole, {**options, **self._options})))
        self.added.append(one.alias(*(f"{prefix}{at}" for at in range(len(fields) + 1))))

    def _checked(self, values: "list[Column]") -> "tuple[list[Column], Column]":
        """Return values in their types, null where the text was no value of it; and whether there was such a text."""
        from pyspark.sql import functions as F

        if not (self._converted or self._compared):
            return values, F.lit(False)
        types = [field.dataType for field in self._schema]
        found = {at: value_of(values[at], types[at], self._given) for at in self._converted}
        if self._compared:
            one = F.inline(F.array(self._texts()))
            self.added.append(one.alias(*(f"_t{at}" for at in self._compared)))
            for at in self._compared:
                fits = all_fit(F.col(f"_t{at}"), types[at], self._source.format, self._given)
                found[at] = F.when(F.coalesce(fits, F.lit(True)), values[at])
        one = F.inline(F.array(F.struct(*(value.alias(f"_{at}") for at, value in found.items()))))
        self.added.append(one.alias(*(f"_c{at}" for at in found)))
        unfit = F.greatest(F.lit(False), *(F.col(f"_c{at}").isNull() & values[at].isNotNull() for at in found))
        return [F.col(f"_c{at}") if at in found else value for at, value in enumerate(values)], unfit

    def _texts(self) -> "Column":
        """Parse the columns of JSON that Spark converts itself, with text in the place of checked types."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        fields = [self._schema[at] for at in self._compared]
        as_texts = [StructField(f.name, as_text(f.dataType, self._source.format, self._given)) for f in fields]
        return self._parse(F.when(F.col("problem").isNull(), self._record), ddl_of(StructType(as_texts)), self._options)

    def misnamed(self, values: "Sequence[Column]") -> "list[Column]":
        """Return the problems with the keys of a JSON object. A header was checked before."""
        from pyspark.sql import functions as F

        if self._is_csv:
            return []
        keys = F.map_keys(F.from_json(self._record, "map<string, string>", self._options))
        names = F.array(*map(F.lit, self._schema.names))
        found, allowed = [], allowed_of(self._source)
        if not allowed.missing:
            some = F.greatest(F.lit(False), *(value.isNotNull() for value in values))
            there = F.coalesce(F.arrays_overlap(keys, names), F.lit(False))
            found.append(F.when(~some, F.when(~there, F.lit("it has none of the columns of the schema"))))
        if not allowed.extra or allowed.adds_only:
            extra = F.size(F.array_except(keys, names))
            keyed = F.when(extra == 1, F.lit("key")).otherwise(F.lit("keys"))
            lacking = F.array_except(names, keys)
            lacks = F.concat(F.lit("it lacks "), F.array_join(lacking, ", "), F.lit(" and has"))
            has = lacks if allowed.adds_only else F.lit("it has")
            is_wrong = (extra > 0) & (F.size(lacking) > 0) if allowed.adds_only else extra > 0
            found.append(F.when(is_wrong, F.concat_ws(" ", has, extra, keyed, F.lit("that the schema does not have"))))
        return found

    def misfit(self, values: "Sequence[Column]") -> "Column":
        """Return why a record does not fit. It is parsed once more with every column as text, to find the failed
        columns.

        An error quotes only the beginning of a value, and only if it is certain that the value is the column's: by a
        header, by its key, or by as many fields as the schema has.
        """
        from pyspark.sql import functions as F

        names, source = self._schema.names, self._source
        schema = ", ".join(f"{_quoted(name)} STRING" for name in (*names, _CORRUPT))
        text = self._parse(self._record, schema, self._options)
        is_known = not self._is_csv or len(names) > 1 or text_format(source, tuple(names)).header is not None

        def shown(value: "Column") -> "Column":
            if source.malformed == "quarantine":
                return value
            cut = F.concat(F.substring(value, 1, _SHOWN_VALUE), F.lit("…"))
            return F.when(F.length(value) > _SHOWN_VALUE, cut).otherwise(value) if is_known else F.lit("?")

        failed = (
            F.when(value.isNull() & text[name].isNotNull(), F.concat(F.lit(f"{name} = "), shown(text[name])))
            for name, value in zip(names, values, strict=True)
        )
        whole = f"not a row of {len(names)} fields" if self._is_csv else "not a JSON object"
        return F.when(text[_CORRUPT].isNotNull() | text.isNull(), F.lit(whole)).otherwise(
            F.concat(F.lit("does not fit the schema: "), F.concat_ws(", ", *failed))
        )


def _facts(location: str) -> "Column":
    """Return the facts about a malformed record for an error. `read_errors.py` makes it a sentence."""
    from pyspark.sql import functions as F

    facts = F.struct(
        F.lit(location).alias("location"),
        *("file", "part", "line"),
        F.substring("_reason", 1, _SHOWN).alias("reason"),
    )
    return F.concat(F.lit(OPEN), F.hex(F.to_json(facts)), F.lit(CLOSE))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
