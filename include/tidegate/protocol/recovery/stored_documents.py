"""The common parts of the JSON documents on checkpoint storage, and the way in which they are read back."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import MetadataError

Read = TypeVar("Read")


# -- written


def written_time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def written_restores(restores: Sequence[Restore]) -> list[dict[str, Any]]:
    times = ("restored_at", "rewound_at")
    return [asdict(restore) | {name: written_time(getattr(restore, name)) for name in times} for restore in restores]


# -- read back


def read_document(path: str, content: bytes, format_: str, newest: int) -> dict[str, Any]:
    """Read the JSON object in a file of this format, of a version up to `newest`. Raises `MetadataError`. Performs no
    I/O."""
    try:
        document: Any = json.loads(content)
    except ValueError as error:
        raise MetadataError(f"{path} is not JSON, so it was cut off or overwritten: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != format_:
        raise MetadataError(f"{path} is not of the format {format_!r}, so it is not Tidegate's.")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise MetadataError(f"{path} is damaged: its version is {version!r}.")
    if version > newest:
        raise MetadataError(
            f"{path} has version {version} of its format, and this release reads versions up to {newest}: a newer "
            "release of Tidegate wrote it. Use that one."
        )
    return document


def read_document_of(
    path: str, content: bytes, pipeline_id: str, checkpoint_id: int, format_: str, newest: int
) -> dict[str, Any]:
    """Read the JSON object in a file that must be of this checkpoint. Raises `MetadataError`. Performs no I/O."""
    document = read_document(path, content, format_, newest)
    owner = document.get("pipeline"), document.get("checkpoint_id")
    if owner != (pipeline_id, checkpoint_id):
        raise MetadataError(f"{path} is of checkpoint {owner[1]} of pipeline {owner[0]}: it was copied to here.")
    return document


def explained(path: str, read: Callable[[], Read]) -> Read:
    """Read a part of a document. Raises `MetadataError` if it is missing or of another kind."""
    try:
        return read()
    except KeyError as error:
        raise MetadataError(f"{path} is damaged: {error} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise MetadataError(f"{path} is damaged: {error}.") from error


def read_restore(restore: Mapping[str, Any]) -> Restore:
    times = {
        name: None if restore[name] is None else datetime.fromisoformat(restore[name])
        for name in ("restored_at", "rewound_at")
    }
    return Restore(**{**restore, **times})
