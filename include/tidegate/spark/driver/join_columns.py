"""The columns of a declared join's two sides, and their rows in its state.

Waiting and kept rows lie in state as JSON: lists of rows, a row being the texts of its columns without the key, in the
order of declaration. Casts to text and back lose nothing.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.pipeline.joins import CHECKPOINT, Join
from tidegate.pipeline.tables import ORDER
from tidegate.ports.versioned_sources import CHANGE, DELETE, VALID_FROM
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import JOINED
from tidegate.spark.driver.hashing import quoted

LEFT, RIGHT = "left_rows", "right_rows"
#: The rows of a right side with versions, and the number of updates of a key's results.
VERSIONS, UPDATES = JOINED
ROWS = "array<array<string>>"


class JoinColumns:
    """The columns of a join's two sides, and the schemas derived from them.

    Raise `PipelineDefinitionError`, in which `where` names the operator.
    """

    def __init__(self, where: str, join: Join, key: Sequence[str], left: StructType, right: StructType) -> None:
        self.join = join
        self.key = tuple(key)
        self._check_keys(where, left, right)
        self.left = [field for field in left.fields if field.name not in key]
        self.right = [field for field in right.fields if field.name not in key]
        self._keys = [left[name] for name in key]
        self.shown = [field for field in self.right if not join.versioned or field.name not in (CHANGE, VALID_FROM)]
        names = [field.name.lower() for field in (*self.left, *self.shown)]
        if twice := sorted({name for name in names if names.count(name) > 1 or name in map(str.lower, key)}):
            raise PipelineDefinitionError(
                f"Both sides of {where} have a column {', '.join(twice)}. Rename it in a transform in front of one of "
                "them."
            )
        needed = [VALID_FROM, CHANGE] if join.versioned else [join.keep] if join.keep is not None else []
        if missing := [name for name in needed if name not in [field.name for field in self.right]]:
            raise PipelineDefinitionError(
                f"The {where} keeps the row with the largest {needed[0]!r}, but its right side has no "
                f"{', '.join(missing)}, only {', '.join(right.names)}."
            )
        self._check_left(where, left)

    @property
    def sides(self) -> tuple[str, ...]:
        """The columns of state with rows: those of the left side, if any are kept, and those of the right one."""
        right = VERSIONS if self.join.versioned else RIGHT
        return (LEFT, right) if self.join.as_of is None else (right,)

    @property
    def state(self) -> StructType:
        rows = [StructField(name, StringType()) for name in self.sides]
        updates = [StructField(UPDATES, LongType())] if self.join.row_key else []
        return StructType([*self._nullable(self._keys), *rows, *updates])

    @property
    def output(self) -> StructType:
        added = [StructField(CHANGE, StringType()), StructField(ORDER, LongType())] if self.join.row_key else []
        return StructType(self._nullable([*self._keys, *self.left, *self.shown, *added]))

    def by(self, row: Column) -> Column:
        """Return the value of a right row by which the largest one is selected."""
        at, field = next((at, field) for at, field in enumerate(self.right) if field.name == self.join.by)
        return typed(row[at], field)

    def is_gone(self, row: Column) -> Column:
        """Return whether a right row marks a deletion."""
        if not self.join.versioned:
            return F.lit(False)
        return row[[field.name for field in self.right].index(CHANGE)] == DELETE

    def latest(self, rows: Column) -> Column:
        """Return the selected one of some right rows; null if there is none."""
        ordered = F.transform(rows, lambda row: F.struct(self.by(row).alias("by"), row.alias("row")))
        best = F.array_max(ordered)["row"]
        return F.when(~self.is_gone(best), best)

    def at(self, row: Column) -> Column:
        """Return the time at which a left row is joined."""
        at, field = next((at, field) for at, field in enumerate(self.left) if field.name == self.join.as_of)
        return typed(row[at], field).cast("timestamp")

    def _check_left(self, where: str, left: StructType) -> None:
        if missing := [name for name in self.join.row_key if name not in left.names]:
            raise PipelineDefinitionError(
                f"The {where} has the row_key {', '.join(self.join.row_key)}, but its left side has no "
                f"{', '.join(missing)}, only {', '.join(left.names)}."
            )
        if self.join.as_of in (None, CHECKPOINT):
            return
        kinds = {field.name: field.dataType for field in self.left}
        if not isinstance(kinds.get(self.join.as_of), TimestampType | TimestampNTZType | DateType):
            raise PipelineDefinitionError(
                f"The {where} is as_of={self.join.as_of!r}, which must be a column of its left side outside the key, "
                f"with a time. It has {', '.join(f'{name} {kind.simpleString()}' for name, kind in kinds.items())}."
            )

    def _check_keys(self, where: str, left: StructType, right: StructType) -> None:
        for side, columns in (("left", left), ("right", right)):
            if missing := [name for name in self.key if name not in columns.names]:
                raise PipelineDefinitionError(
                    f"The {where} joins by {', '.join(map(repr, missing))}, but its {side} side has only "
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


def matching(key: Sequence[str]) -> Column:
    """Return whether a key matches anything. As in SQL, null does not."""
    return reduce(and_, (F.col(quoted(name)).isNotNull() for name in key))


def packed(fields: Sequence[StructField]) -> Column:
    return F.array(F.array(*map(_text, fields)).cast("array<string>"))


def _text(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    return F.base64(column) if isinstance(field.dataType, BinaryType) else column.cast("string")


def unpacked(row: Column, at: int, field: StructField) -> Column:
    return typed(row[at], field).alias(field.name)


def typed(text: Column, field: StructField) -> Column:
    return F.unbase64(text) if isinstance(field.dataType, BinaryType) else text.cast(field.dataType)
