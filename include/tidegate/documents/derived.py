"""The types of what `values.written` makes, derived from the answer's own dataclass by the same rules.

So the description of the API cannot say anything else than the code, and nothing is written down twice.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum, IntEnum
from functools import cache
from inspect import getdoc
from typing import Any, Literal, Union

from pydantic import BaseModel, ConfigDict, create_model

from tidegate.protocol.facts.records import StateHandle

_LISTS = (tuple, list, set, frozenset)


class Document(BaseModel):
    """An object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Handle(Document):
    """A file of a checkpoint. `created_by` is the checkpoint that wrote it."""

    kind: str
    path: str
    rows: int
    bytes: int
    sha256: str
    created_by: int


@cache
def model_of(answer: type) -> type[BaseModel]:
    """Of a dataclass; its docstring is the description."""
    hints = typing.get_type_hints(answer)
    typed = dict(_field(field.name, hints[field.name]) for field in fields(answer))
    given: dict[str, Any] = {name: (kind, ...) for name, kind in typed.items()}
    return create_model(answer.__name__, __base__=Document, __doc__=getdoc(answer), **given)


def _field(name: str, hint: Any) -> tuple[str, Any]:
    """As `values.written` names fields."""
    is_moment = hint is datetime or set(typing.get_args(hint)) == {datetime, types.NoneType}
    if is_moment and name == "at":
        return "timestamp", int
    if is_moment and name == "since":
        return "since_timestamp", int
    if is_moment and name.endswith("_at"):
        return f"{name.removesuffix('_at')}_timestamp", int
    return name, type_of(hint)


def type_of(hint: Any) -> Any:
    """The type of what becomes of a value with this annotation."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(type_of(each) for each in inner)]  # noqa: UP007 - made from a list
    if origin in _LISTS:
        return list[type_of(inner[0])]  # type: ignore[misc]
    if origin is not None and issubclass(origin, Mapping):
        return dict[str, type_of(inner[1])]  # type: ignore[misc]
    return _plain(hint)


def _plain(hint: Any) -> Any:
    if hint is StateHandle:
        return Handle
    if hint is datetime:
        return int
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return Literal[tuple(each.name for each in hint)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(each.value for each in hint)]
    return model_of(hint) if is_dataclass(hint) and isinstance(hint, type) else hint
