"""Arrow's types with the attributes of Spark's. `sources/json_texts.py` and `json_names.py` use them to know the syntax
of a JSON text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as of

from tidegate.sources.json_names import names_of
from tidegate.sources.json_texts import Syntax, floats_of, places_of


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    dataType: "_Type"


@dataclass(frozen=True, slots=True)
class _Type:
    kind: pa.DataType

    def typeName(self) -> str:
        tests = {
            "struct": of.is_struct,
            "map": of.is_map,
            "array": lambda kind: of.is_list(kind) or of.is_large_list(kind),
            "string": lambda kind: of.is_string(kind) or of.is_large_string(kind),
            "decimal": of.is_decimal,
            "float": of.is_float32,
            "double": of.is_float64,
        }
        return next((name for name, test in tests.items() if test(self.kind)), "other")

    @property
    def fields(self) -> list[_Field]:
        return [_Field(each.name, _Type(each.type)) for each in self.kind]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.kind]

    @property
    def elementType(self) -> "_Type":
        return _Type(self.kind.value_type)

    @property
    def valueType(self) -> "_Type":
        return _Type(self.kind.item_type)

    def __iter__(self) -> Iterator[_Field]:
        return iter(self.fields)


def syntax_of(columns: pa.Schema) -> Syntax:
    """Return the syntax of JSON in a topic with these columns."""
    type_: Any = _Type(pa.struct(list(columns)))
    return Syntax(places_of(type_), names=names_of(type_), floats=floats_of(type_), record=True)
