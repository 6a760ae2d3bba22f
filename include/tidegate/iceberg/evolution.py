"""Adapts a table's columns to those of rows: more columns, wider and renamed ones. Everything else is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)


@dataclass
class Evolution:
    """A table's columns, adapted to those of rows. `changes` and `problems` are phrases."""

    renamed: Mapping[str, str]
    last: int
    changes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def schema(self, table: Schema, rows: Schema) -> Schema:
        fields = self._fields(table.fields, rows.fields, "")
        there = {each.field_id for each in rows.fields}
        self.problems += [
            f"the table's column {each.name!r} takes no null, and the rows do not have it"
            for each in table.fields
            if each.required and each.field_id not in there
        ]
        names = [each.name.lower() for each in fields]
        self.problems += [
            f"the table would have two columns {name!r}" for name in sorted({n for n in names if names.count(n) > 1})
        ]
        return Schema(*fields, identifier_field_ids=table.identifier_field_ids)

    def _fields(self, table: Sequence[NestedField], rows: Sequence[NestedField], where: str) -> list[NestedField]:
        given = {each.field_id: each for each in rows}
        found = [self._field(each, given.get(each.field_id), where) for each in table]
        for each in rows:
            is_new = each.field_id not in {known.field_id for known in table}
            if is_new and each.field_id > self.last:  # else the table has dropped it since
                self.changes.append(f"gets a column {where}{each.name} ({each.field_type})")
                found.append(each.model_copy(update={"required": False}))
        return found

    def _field(self, table: NestedField, rows: NestedField | None, where: str) -> NestedField:
        if rows is None:
            return table
        name = table.name
        if name != rows.name and self.renamed.get(name) == rows.name and not where:
            self.changes.append(f"renames its column {name} to {rows.name}")
            name = rows.name
        elif table.field_id > self.last and name != rows.name:
            self.problems.append(
                f"another writer has added a column {name!r} since rows with a new column {where}{rows.name} were "
                "staged: run the checkpoint again"
            )
        kind = self._type(table.field_type, rows.field_type, f"{where}{name}")
        return table.model_copy(update={"name": name, "field_type": kind})

    def _type(self, table: IcebergType, rows: IcebergType, where: str) -> IcebergType:
        match table, rows:
            case StructType(), StructType():
                return StructType(*self._fields(table.fields, rows.fields, f"{where}."))
            case ListType(), ListType():
                element = self._type(table.element_type, rows.element_type, f"{where}.element")
                return table.model_copy(update={"element_type": element})
            case MapType(), MapType():
                key = self._type(table.key_type, rows.key_type, f"{where}.key")
                value = self._type(table.value_type, rows.value_type, f"{where}.value")
                return table.model_copy(update={"key_type": key, "value_type": value})
        if table == rows or widens(rows, table):
            return table
        if widens(table, rows):
            self.changes.append(f"widens its column {where} from {table} to {rows}")
            return rows
        self.problems.append(
            f"the table's column {where!r} is {table}, and the rows have {rows}, which Iceberg cannot make of it: cast "
            "it in a transform, or give the column another name"
        )
        return table


def widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Whether Iceberg lets a column of the narrow type become one of the wide type."""
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (type(narrow), type(wide)) in ((IntegerType, LongType), (FloatType, DoubleType))
