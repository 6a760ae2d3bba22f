"""The base of every answer: a pydantic model that pages, API and commands show, and that JSON schemas describe.

In JSON, sizes are bytes, durations are milliseconds, and moments are milliseconds since 1970. -1 means that no value
was reported, or that there is no such moment. Fields that Flink's REST API has too carry its names.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic_core import to_jsonable_python

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.records import HandleKind, StateHandle


def milliseconds(at: datetime | None) -> int:
    """Return the milliseconds since 1970; -1 if there is no such moment."""
    return -1 if at is None else round(at.timestamp() * 1000)


def _name_in_json(field: str) -> str:
    """Return a field's name in JSON: `x_at` becomes `x_timestamp`, `since` becomes `since_timestamp`, `at` becomes
    `timestamp`.
    """
    if field == "at":
        return "timestamp"
    return f"{field.removesuffix('_at')}_timestamp" if field == "since" or field.endswith("_at") else field


Moment = Annotated[datetime, PlainSerializer(milliseconds, return_type=int)]
MomentOrNone = Annotated[datetime | None, PlainSerializer(milliseconds, return_type=int)]
#: A number that stays an integer if it is one.
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]


class Document(BaseModel):
    """An object with these fields and no others. `model_validate` builds it from another object's attributes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        serialize_by_alias=True,
        json_schema_serialization_defaults_required=True,
        alias_generator=AliasGenerator(serialization_alias=_name_in_json),
    )


def to_json(document: Any) -> str:
    return json.dumps(to_jsonable_python(document, by_alias=True), indent=2)


class Handle(Document):
    """A file of a checkpoint. `created_by` is the id of the checkpoint that wrote it."""

    kind: HandleKind
    path: str
    rows: int
    bytes: int
    checksum: str = Field(serialization_alias="sha256")
    created_by: int


def handles_of(handles: Iterable[StateHandle]) -> tuple[Handle, ...]:
    return tuple(Handle.model_validate(handle) for handle in handles)


class RestoreAt(Document):
    __doc__ = Restore.__doc__

    number: int
    checkpoint_id: int
    last_checkpoint_id: int
    previous_checkpoint_id: int | None
    restored_at: Moment
    undoes: int | None
    rewound_at: MomentOrNone
    allows_non_restored_state: bool
    imported: int | None
