"""The function over state of a declared join.

Waiting and kept rows lie in state as JSON: lists of rows, a row being the texts of its columns beside the key, in the
order in which they were declared. Casts to text and back lose nothing.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tidegate.pipeline.joins import Join
from tidegate.pipeline.update import Update
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.driver.hashing import quoted

LEFT, RIGHT = "left_rows", "right_rows"
_ROWS = "array<array<string>>"


class JoinColumns:
    """The columns of a join's two sides, and what follows from them.

    Raises `PipelineDefinitionError`; `where` names the operator.
    """

    def __init__(self, where: str, join: Join, key: Sequence[str], left: StructType, right: StructType) -> None:
        self.join = join
        self.key = tuple(key)
        self._check_keys(where, left, right)
        self.left = [field for field in left.fields if field.name not in key]
        self.right = [field for field in right.fields if field.name not in key]
        self._keys = [left[name] for name in key]
        names = [field.name.lower() for field in (*self.left, *self.right)]
        if twice := sorted({name for name in names if names.count(name) > 1 or name in map(str.lower, key)}):
            raise PipelineDefinitionError(
                f"Both sides of {where} have a column {', '.join(twice)}. Rename it in a transform in front of one of "
                "them."
            )
        if join.keep is not None and join.keep not in [field.name for field in self.right]:
            raise PipelineDefinitionError(
                f"The {where} keeps the row with the largest {join.keep!r}, but its right side has only "
                f"{', '.join(right.names)}."
            )

    @property
    def state(self) -> StructType:
        rows = (StructField(name, StringType()) for name in (LEFT, RIGHT))
        return StructType([*self._nullable(self._keys), *rows])

    @property
    def output(self) -> StructType:
        return StructType(self._nullable([*self._keys, *self.left, *self.right]))

    def _check_keys(self, where: str, left: StructType, right: StructType) -> None:
        for side, columns in (("left", left), ("right", right)):
            if missing := [name for name in self.key if name not in columns.names]:
                raise PipelineDefinitionError(
                    f"The {where} joins by {', '.join(map(repr, missing))}, and its {side} side has only "
                    f"{', '.join(columns.names)}."
                )
        for name in self.key:
            one, other = left[name].dataType.simpleString(), right[name].dataType.simpleString()
            if one != other:
                raise PipelineDefinitionError(
                    f"The {where} joins by {name!r}, which is {one} on the left side and {other} on the right. Cast "
                    "one of them in a transform in front of it."
                )

    @staticmethod
    def _nullable(fields: Sequence[StructField]) -> list[StructField]:
        return [StructField(field.name, field.dataType) for field in fields]


def joined(columns: JoinColumns, left: DataFrame, right: DataFrame, state: DataFrame) -> Update:
    """What the rows that came mean, given what is kept. As in SQL, a null key matches nothing."""
    met = _met(columns, left, right, state)
    pairs, kept = (_all if columns.join.keep is None else _newest)(columns)
    matches = F.lit(True)
    for name in columns.key:
        matches &= F.col(quoted(name)).isNotNull()
    keys = [F.col(quoted(name)) for name in columns.key]
    unmatched = _pairs(F.col("new_left"), _nobody()) if columns.join.how == "left" else F.array()
    exploded = met.select(*keys, F.explode(F.when(matches, pairs).otherwise(unmatched)).alias("pair"))
    rows = exploded.select(
        *keys,
        *(_unpacked(F.col("pair.l"), at, field) for at, field in enumerate(columns.left)),
        *(_unpacked(F.col("pair.r"), at, field) for at, field in enumerate(columns.right)),
    )
    upserts = met.where(matches).select(*keys, *(F.to_json(rows).alias(name) for name, rows in kept.items()))
    return Update(state=upserts, rows=rows)


def _met(columns: JoinColumns, left: DataFrame, right: DataFrame, state: DataFrame) -> DataFrame:
    """By key, the rows that are kept and those that came, as texts."""
    keys = [F.col(quoted(name)) for name in columns.key]
    old = [F.from_json(name, _ROWS).alias(f"old_{side}") for name, side in ((LEFT, "left"), (RIGHT, "right"))]
    parts = [
        state.select(*keys, *old),
        left.select(*keys, _packed(columns.left).alias("new_left")),
        right.select(*keys, _packed(columns.right).alias("new_right")),
    ]
    together = parts[0].unionByName(parts[1], allowMissingColumns=True).unionByName(parts[2], allowMissingColumns=True)
    sides = ("old_left", "new_left", "old_right", "new_right")
    # Sorted, because the order of arrival is another one each time.
    collected = (F.sort_array(F.flatten(F.collect_list(side))).alias(side) for side in sides)
    return together.groupBy(*keys).agg(*collected)


def _all(columns: JoinColumns) -> tuple[Column, dict[str, Column]]:
    """Every pair once, when the later of the two comes."""
    lefts, rights = F.concat("old_left", "new_left"), F.concat("old_right", "new_right")
    pairs = F.concat(_pairs(F.col("new_left"), rights), _pairs(F.col("old_left"), F.col("new_right")))
    return pairs, {LEFT: lefts, RIGHT: rights}


def _newest(columns: JoinColumns) -> tuple[Column, dict[str, Column]]:
    """Each row of the left side once, with the row of the right side that counts then."""
    at, field = next((at, each) for at, each in enumerate(columns.right) if each.name == columns.join.keep)
    ordered = F.transform(
        F.concat("old_right", "new_right"),
        lambda row: F.struct(_typed(row[at], field).alias("by"), row.alias("row")),
    )
    best = F.array_max(ordered)["row"]
    rights = F.when(best.isNotNull(), F.array(best)).otherwise(_none())
    if columns.join.how == "left":
        matched = F.when(best.isNotNull(), rights).otherwise(_nobody())
        return _pairs(F.col("new_left"), matched), {LEFT: _none(), RIGHT: rights}
    lefts = F.concat("old_left", "new_left")
    return _pairs(lefts, rights), {LEFT: F.when(best.isNull(), lefts).otherwise(_none()), RIGHT: rights}


def _pairs(lefts: Column, rights: Column) -> Column:
    def with_all(left: Column) -> Column:
        return F.transform(rights, lambda right: F.struct(left.alias("l"), right.alias("r")))

    return F.flatten(F.transform(lefts, with_all))


def _none() -> Column:
    return F.array().cast(_ROWS)


def _nobody() -> Column:
    """For a row that has met none."""
    return F.array(F.lit(None).cast("array<string>"))


def _packed(fields: Sequence[StructField]) -> Column:
    return F.array(F.array(*map(_text, fields)).cast("array<string>"))


def _text(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    return F.base64(column) if isinstance(field.dataType, BinaryType) else column.cast("string")


def _unpacked(row: Column, at: int, field: StructField) -> Column:
    return _typed(row[at], field).alias(field.name)


def _typed(text: Column, field: StructField) -> Column:
    return F.unbase64(text) if isinstance(field.dataType, BinaryType) else text.cast(field.dataType)
